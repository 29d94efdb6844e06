"""From entries to runs: what has to be trained, what is finished already, and whether all of it can start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from graphbench.errors import UserError, unknown
from graphbench.experiment import Checked, Run, check
from graphbench.sweeps.sweep import Entry, Sweep


@dataclass(frozen=True)
class Planned:
    """An entry that can be trained.

    Attributes:
        entry: from the sweep file.
        checked: with its runs and its folder.
        repeat: number of seeds that its runs were planned with.
        finished: run ids of those that need not be trained.
    """

    entry: Entry
    checked: Checked
    repeat: int
    finished: frozenset[int]

    @property
    def column(self) -> str:
        """Of the table: as written, or the data set."""
        return self.entry.column or str(self.checked.description["dataset"])

    @property
    def log_file(self) -> Path:
        """Where its runs write what they would print."""
        return self.checked.folder / "sweep.log"

    @property
    def missing(self) -> list[Run]:
        """The runs that are still to be trained."""
        return [run for run in self.checked.runs if run.run_id not in self.finished]


def plan(sweep: Sweep, entries: Sequence[Entry]) -> list[Planned]:
    """Checks every entry, and reads off the disk which of its runs are finished.

    Raises:
        UserError: an entry cannot be trained, or two fill the same cell of the table.
    """
    planned = []
    cells: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        repeat = sweep.repeat(entry)
        try:
            checked = check(entry.config, repeat=repeat)
        except UserError as error:
            raise UserError(f"{entry.where}: {entry.config.name} ({entry.cell}): {error}") from None
        if checked.fabric.world_size > 1:
            raise UserError(
                f"{entry.config.where('devices')}: {entry.config.name} needs {checked.fabric.world_size} devices; "
                "a sweep runs every training in one process. Run this one with main.py."
            )
        found = Planned(entry, checked, repeat, _finished(checked))
        cell = (entry.label, found.column)
        other = cells.setdefault(cell, entry)
        if other is not entry:
            raise UserError(
                f"{entry.where}: two entries fill the cell {' / '.join(cell)}: {other.config.name} and "
                f"{entry.config.name}. Give one of them a column of its own, or another label."
            )
        planned.append(found)
    return planned


def _finished(checked: Checked) -> frozenset[int]:
    """Run ids that are there with the same configuration."""
    records = {run.run_id: checked.directory(run).record for run in checked.runs}
    return frozenset(
        run_id
        for run_id, record in records.items()
        if record is not None and (record.status, record.config_hash) == ("finished", checked.config.hash)
    )


def select(sweep: Sweep, patterns: Sequence[str]) -> list[Entry]:
    """The entries whose label, column or run folder matches one of the patterns (``*`` and ``?``, case ignored).

    Raises:
        UserError: a pattern matches nothing.
    """
    if not patterns:
        return list(sweep.entries)
    chosen: set[int] = set()
    for pattern in patterns:
        found = [i for i, entry in enumerate(sweep.entries) if _matches(entry, pattern)]
        if not found:
            raise unknown("entry", pattern, {name for each in sweep.entries for name in _names(each)}, "--only")
        chosen.update(found)
    return [entry for i, entry in enumerate(sweep.entries) if i in chosen]


def _matches(entry: Entry, pattern: str) -> bool:
    return any(fnmatch(name.lower(), pattern.lower()) for name in _names(entry))


def _names(entry: Entry) -> list[str]:
    return [entry.label, *([entry.column] if entry.column else []), entry.config.name]
