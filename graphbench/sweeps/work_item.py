"""What a launcher hands to a process: a run of an entry, several that are trained together, or a trial of a search."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from graphbench.preflight import Run
from graphbench.sweeps.run_spec import RunSpec

if TYPE_CHECKING:
    from graphbench.sweeps.plan import PlannedEntry

RunKey: TypeAlias = tuple[str, str]
"""Folder, and run id or count of trials."""


@dataclass
class WorkItem:
    """Runs of an entry, or one trial of its search, on their way through a launcher.

    Attributes:
        planned: the entry.
        runs: one, or several that are trained together; none: whichever trial of the search comes next.
        number: the first run id, or a count of trials; tells the items of an entry apart.
        attempts: how often it was started.
    """

    planned: PlannedEntry
    runs: tuple[Run, ...]
    number: int
    attempts: int = field(default=0, compare=False)

    @property
    def keys(self) -> tuple[RunKey, ...]:
        """Folder and run, of every run: the same for the same work in another call."""
        search = self.planned.search
        folder = str(search.folder if search else self.planned.checked.folder)
        return tuple((folder, str(run.run_id)) for run in self.runs) or ((folder, str(self.number)),)

    @property
    def key(self) -> RunKey:
        """Folder and runs in one."""
        folder, _ = self.keys[0]
        return folder, ",".join(number for _, number in self.keys)

    @property
    def needs(self) -> frozenset[RunKey]:
        """Keys of the runs that it starts from, as far as they are trained with it."""
        numbers = {run.run_id for run in self.runs} or {self.number}
        return frozenset(key for number, key in self.planned.needs.items() if number in numbers)

    @property
    def title(self) -> str:
        """Which runs, in short."""
        return ",".join(str(run.run_id) for run in self.runs) or "search"

    @property
    def name(self) -> str:
        """Row, column and folder of the runs."""
        return self.name_of(self.title)

    def name_of(self, run: object) -> str:
        """The same for one of the runs."""
        entry = self.planned.entry
        return f"{entry.label} / {self.planned.column} ({entry.config.name} {run})"

    def spec(self) -> RunSpec:
        """What a worker needs to train it."""
        entry = self.planned.entry
        return RunSpec(
            file=entry.file,
            overrides=entry.overrides,
            origins=dict(entry.origins),
            repeat=self.planned.repeat,
            run_ids=tuple(run.run_id for run in self.runs) or None,
            together=len(self.runs) > 1,
            config_hash=entry.config.hash,
            log_file=self.planned.log_file,
            search=self.planned.search,
        )

    def limited_to(self, keys: Collection[RunKey]) -> WorkItem | None:
        """The part of it that has these keys; None: nothing has. A trial stays as it is."""
        runs = tuple(run for run, key in zip(self.runs, self.keys) if key in keys)
        if not self.runs:
            return self
        return replace(self, runs=runs, number=runs[0].run_id) if runs else None
