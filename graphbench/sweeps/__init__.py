"""Sweeps: many configurations, their runs over seeds and splits, searches over settings, and what starts them.

::

    sweep.py document.py grid.py search.py    a sweep file becomes a ``Sweep`` of entries (and ``SearchPlan``)
    plan.py, work_item.py                     what is missing of it: ``WorkItem``
    run_spec.py worker.py trial.py study.py   one ``RunSpec`` is trained, a ``RunResult`` comes back
    local.py ray.py slurm*.py                 launchers: ``launch(items, progress, ...)`` trains all items
    progress.py cli.py                        display and command line

Files import downwards in this list's order only; ``read_sweep`` is what other rooms need.
"""

from graphbench.sweeps.sweep import Entry, Sweep, read_sweep

__all__ = ["Entry", "Sweep", "read_sweep"]
