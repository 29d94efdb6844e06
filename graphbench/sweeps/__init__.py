"""Sweeps: many configurations, their runs over seeds and splits, searches over settings, and what starts them.

::

    sweep.py document.py grid.py search.py    a sweep file becomes a ``Sweep`` of entries (and ``SearchPlan``)
    cells.py                                  where they stand in a table
    work_item.py run_item.py plan.py          what is missing of it: ``RunItem``, a ``WorkItem``
    run_spec.py trial.py study.py journal.py  one ``RunSpec`` is trained, a ``RunResult`` comes back
    shards.py                                 shards of encodings: ``ShardItem``, ``ShardSpec``
    worker.py local.py ray.py slurm*.py       launchers: ``launch(items, progress, ...)`` does all items
    launchers.py progress.py cli.py           choice of a launcher, display, command line

Files import downwards in this list's order only; ``read_sweep`` is what other packages need.
"""

from graphbench.sweeps.sweep import Entry, Sweep, read_sweep

__all__ = ["Entry", "Sweep", "read_sweep"]
