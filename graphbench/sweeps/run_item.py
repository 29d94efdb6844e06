"""Work of a sweep: a run of an entry, several that are trained together, or a trial of a search."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.runs.planned import Run
from graphbench.sweeps.finished import finished_runs
from graphbench.sweeps.run_spec import RunSpec
from graphbench.sweeps.work_item import RunKey, WorkItem

if TYPE_CHECKING:
    from graphbench.sweeps.plan import PlannedEntry


@dataclass
class RunItem(WorkItem):
    """Runs of an entry, or one trial of its search, on their way through a launcher.

    Attributes:
        planned: the entry.
        runs: one, or several that are trained together; none: whichever trial of the search comes next.
        number: the first run id, or a count of trials; tells the items of an entry apart.
        attempts: number of starts.
    """

    planned: PlannedEntry
    runs: tuple[Run, ...]
    number: int
    attempts: int = field(default=0, compare=False)

    @property
    def keys(self) -> tuple[RunKey, ...]:
        """Folder and run, of every run."""
        search = self.planned.search
        folder = str((search.folder if search else self.planned.checked.folder).resolve())
        return tuple((folder, str(run.run_id)) for run in self.runs) or ((folder, str(self.number)),)

    @property
    def needs(self) -> frozenset[RunKey]:
        """Keys of the runs that it starts from, as far as they are trained with it."""
        needs = self.planned.needs
        return frozenset(needs[run.run_id] for run in self.runs or self.planned.checked.runs if run.run_id in needs)

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Configuration, row and column of the entry, ids of the runs."""
        entry = self.planned.entry
        which = ",".join(str(run.run_id) for run in self.runs) or "search"
        return entry.config.name, entry.label, self.planned.column, which

    @property
    def log_file(self) -> Path:
        """Log file of the entry."""
        return self.planned.log_file

    @property
    def is_interchangeable(self) -> bool:
        """Whether only the number of items counts, as for trials of a search."""
        return not self.runs

    @property
    def in_use(self) -> bool:
        """Whether another process trains one of the runs."""
        return any(self.planned.checked.directory(run).in_use for run in self.runs)

    @property
    def size(self) -> int:
        """Runs."""
        return max(1, len(self.runs))

    def unfinished(self) -> list[str]:
        """Names of unfinished runs; of runs together, those that have finished all the same count as such."""
        if len(self.runs) < 2:
            return [self.name]
        finished = finished_runs(self.planned.checked)
        return [self.name_of(run.run_id) for run in self.runs if run.run_id not in finished]

    def spec(self) -> RunSpec:
        """Specification that a worker needs to train the runs."""
        entry, runs = self.planned.entry, self.runs or self.planned.checked.runs
        return RunSpec(
            file=entry.file,
            overrides=entry.overrides,
            origins=dict(entry.origins),
            repeat=self.planned.repeat,
            run_ids=tuple(run.run_id for run in self.runs) or None,
            together=len(self.runs) > 1,
            bases=tuple(str(self.planned.sources[run.run_id]) for run in runs if self.planned.sources),
            config_hash=entry.config.hash,
            log_file=self.planned.log_file,
            search=self.planned.search,
        )

    def limited_to(self, keys: Collection[RunKey]) -> RunItem | None:
        """The part of it that has these keys; None: nothing has. A trial stays as it is."""
        runs = tuple(run for run, key in zip(self.runs, self.keys) if key in keys)
        if not self.runs:
            return self
        return replace(self, runs=runs, number=runs[0].run_id) if runs else None
