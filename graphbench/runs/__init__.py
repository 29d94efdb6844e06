"""Files that a run writes, and how they are read again: directory, record, history, aggregate.

``results/<config>/<run id>/`` is a :class:`~graphbench.runs.run_directory.RunDirectory`: it decides whether a run is
fresh, resumed, finished earlier or refused, and holds a lock while somebody writes. In it:

- ``record.json``, a :class:`~graphbench.runs.record.RunRecord` (``record``, ``environment``): settings, data, software,
  hardware, scores of the best epoch. ``records`` reads folders of them and packed JSONL files (``pack``) alike.
- ``{train,val,test}/stats.json``, one line per evaluated epoch (``history``), as GraphGym writes them.

``aggregate`` makes mean and deviation over the runs of a configuration, ``summary`` the table of several of them. Files
appear whole or not at all (:mod:`graphbench.atomic`), as JSON that every reader accepts (``json_text``).
"""
