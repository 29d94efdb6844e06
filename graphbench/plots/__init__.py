"""Figures from finished runs (``graphbench plots``), one module each.

A figure is a module with ``arguments(parser)`` and ``make(options)``, see :class:`graphbench.plots.cli.FigureModule`;
its first docstring line is its help.

::

    traingap.py focal.py layers.py decay.py     curves from records, settings and stats.json (points.py: their runs)
    attention.py surrogate.py                   matrices of a trained model on one graph (node_matrix.py, trained.py)
    scaling.py scaling_points.py                time and memory, measured by training_step.py in processes of its own
    canvas.py                                   fonts, colours, files
"""
