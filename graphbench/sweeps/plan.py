"""Plan of the runs of entries: what has to be trained, what is finished already, and whether all of it can start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

from graphbench.config.run_keys import INFERENCE_MODES
from graphbench.errors import UserError, unknown
from graphbench.preflight import Checked, check, check_together, declared_identity
from graphbench.runs.planned import Run, planned_runs
from graphbench.sweeps.cells import CellSpec, check_cells
from graphbench.sweeps.dependencies import base_run, bases_first
from graphbench.sweeps.finished import finished_runs, stale_runs
from graphbench.sweeps.run_item import RunItem
from graphbench.sweeps.search import SearchPlan
from graphbench.sweeps.study import Study, StudyStatus, load_optuna
from graphbench.sweeps.sweep import Entry, Sweep
from graphbench.sweeps.work_item import RunKey


@dataclass(frozen=True)
class PlannedEntry:
    """An entry that can be trained.

    Attributes:
        entry: entry of the sweep file.
        checked: configuration with its runs and its folder.
        repeat: number of seeds that its runs were planned with.
        finished: run ids of those that need not be trained.
        search: search that its trials are made from; None: the entry itself is trained.
        ended: trials of the search that are done.
        sources: run id -> folder of the run of another entry that it starts from; empty: it builds on none.
        needs: run id -> key of that run, where the sweep trains it, too.
        stale: ids of runs on disk that started from other weights than are, or will be, there.
        together: whether its missing runs are one piece of work, trained in turns.
    """

    entry: Entry
    checked: Checked
    repeat: int
    finished: frozenset[int]
    search: SearchPlan | None = None
    ended: int = 0
    sources: Mapping[int, Path] = field(default_factory=dict)
    needs: Mapping[int, RunKey] = field(default_factory=dict)
    stale: frozenset[int] = frozenset()
    together: bool = False

    @property
    def column(self) -> str:
        """Column of the table: as written, or the data set."""
        return self.entry.column or self.checked.summary.dataset

    @property
    def log_file(self) -> Path:
        """File that its runs write their output to."""
        return (self.search.folder if self.search else self.checked.folder) / "sweep.log"

    @property
    def total(self) -> int:
        """Runs, or trials."""
        return self.search.trials if self.search else len(self.checked.runs)

    @property
    def done(self) -> int:
        """Runs that are finished, or trials that have ended."""
        return min(self.ended, self.search.trials) if self.search else len(self.finished)

    def unfinished(self) -> Counter[str]:
        """Number of the unfinished runs by status: failed, interrupted, running."""
        runs = [] if self.search else [run for run in self.checked.runs if run.run_id not in self.finished]
        records = (self.checked.directory(run).record for run in runs)
        return Counter(record.status for record in records if record is not None)

    @property
    def missing(self) -> list[RunItem]:
        """Runs still to be trained."""
        if self.search is not None:
            return [RunItem(self, (), number) for number in range(self.ended, self.search.trials)]
        runs = tuple(run for run in self.checked.runs if run.run_id not in self.finished)
        trains = self.checked.config.tree.train.mode not in INFERENCE_MODES
        parts = [runs] if self.together and trains and runs else [(run,) for run in runs]
        return [RunItem(self, part, part[0].run_id) for part in parts]


def plan(
    sweep: Sweep,
    entries: Sequence[Entry],
    *,
    trials: int | None = None,
    overwrite: bool = False,
    together: bool = False,
) -> list[PlannedEntry]:
    """Checks every entry, and reads off the disk which of its runs are finished.

    Args:
        sweep: the sweep.
        entries: entries of the sweep to train.
        trials: trials of each search; entries with a search are trained as they are without.
        overwrite: runs of another configuration may lie in the way, see :func:`set_aside`.
        together: the missing runs of an entry are trained in turns, where its mode is a training.

    Raises:
        UserError: an entry cannot be trained, two fill the same cell of the table, or a search cannot be run.
    """
    if trials and together:
        raise UserError(
            f"{sweep.path}: --together and {trials} trials exclude each other: a trial that is given up after its "
            "first seed begins no further ones. Leave one of them out."
        )
    if trials and not any(entry.search for entry in entries):
        raise UserError(f"{sweep.path}: {trials} trials are asked for, but no entry has a search.")
    if trials:
        load_optuna()
    planned: dict[Path, PlannedEntry] = {}
    for entry in bases_first(entries):
        base = planned.get(entry.base) if entry.base else None
        planned[entry.folder] = replace(_plan_entry(sweep, entry, base, trials, overwrite), together=together)
        if together and entry.config.tree.train.mode not in INFERENCE_MODES:
            check_together(entry.config)
    result = [planned[entry.folder] for entry in entries]
    _check_table(sweep, result)
    return result


def _plan_entry(
    sweep: Sweep, entry: Entry, base: PlannedEntry | None, trials: int | None, overwrite: bool
) -> PlannedEntry:
    """One entry, after the one that it builds on; None: that is not trained with it."""
    repeat = sweep.repeat(entry)
    searches = bool(trials and entry.search)
    stale: frozenset[int] = frozenset()
    try:
        runs = planned_runs(entry.config, repeat)
        sources = _sources(sweep, entry, runs)
        needs = _needs(sources, base)
        source = base.checked.config if base and runs[0].run_id in needs else None
        # A search writes into a folder of its own: what lies in the entry's is no obstacle.
        checked = check(entry.config, repeat=repeat, overwrite=overwrite or searches, base=source)
        to_train = {item.key for item in base.missing} if base else set()
        waiting = {run_id for run_id, key in needs.items() if key in to_train}
        if entry.base and not searches:
            stale = stale_runs(checked, sources, waiting, overwrite)
    except UserError as error:
        raise UserError(f"{entry.where}: {entry.config.name} ({entry.cell}): {error}") from None
    if checked.fabric.world_size > 1:
        raise UserError(
            f"{entry.config.where('devices')}: {entry.config.name} needs {checked.fabric.world_size} devices; "
            "a sweep runs every training in one process. Run this one with graphbench train."
        )
    if trials and entry.search:
        search = _search(sweep, entry, checked, trials)
        ended = search_status(search).ended
        return PlannedEntry(entry, checked, repeat, frozenset(), search, ended, sources, needs)
    finished = finished_runs(checked) - waiting - stale
    return PlannedEntry(entry, checked, repeat, finished, sources=sources, needs=needs, stale=stale)


def _sources(sweep: Sweep, entry: Entry, runs: Sequence[Run]) -> dict[int, Path]:
    """Run id -> folder of the run of its base that it starts from; empty: the entry builds on no other."""
    if entry.base is None:
        return {}
    base = next(each for each in sweep.entries if each.folder == entry.base)
    of_base = [run.run_id for run in planned_runs(base.config, sweep.repeat(base))]
    return {run.run_id: base_run(entry, run.run_id, of_base).resolve() for run in runs}


def _needs(sources: Mapping[int, Path], base: PlannedEntry | None) -> dict[int, RunKey]:
    """Run id -> key of the run of the base that it starts from, as far as the sweep trains that."""
    if base is None or base.search is not None:  # trials leave nothing in the folder that pretrained.dir names
        return {}
    trained = {base.checked.directory(run).path.resolve() for run in base.checked.runs}
    return {run_id: (str(path.parent), path.name) for run_id, path in sources.items() if path in trained}


def _check_table(sweep: Sweep, planned: Sequence[PlannedEntry]) -> None:
    """Refuses what the table of a sweep would refuse after days of training.

    Raises:
        UserError: two entries for a cell, a column of several data sets, or a published value that is not in print.
    """
    specs = []
    for one in planned:
        dataset = one.checked.summary.dataset
        specs.append(CellSpec.of_entry(sweep, one.entry, dataset=dataset, records=one.checked.folder))
        if sweep.published is not None:
            sweep.published.find(one.entry.label, dataset, one.entry.published, one.entry.where)
        elif one.entry.published is not None:
            raise UserError(f"{one.entry.where}: published needs a table: the key published below sweep names it.")
    check_cells(specs)


def set_aside(planned: Sequence[PlannedEntry]) -> list[Path]:
    """Renames runs of other configurations aside that lie where planned ones will; their new folders."""
    moved: list[Path | None] = []
    for entry in planned:
        if entry.search is None:  # a search writes into a folder of its own
            for run in entry.checked.runs:
                identity, directory = declared_identity(entry.checked.config, run), entry.checked.directory(run)
                stale = run.run_id in entry.stale
                moved.append(directory.set_aside() if stale else directory.set_aside_another(identity))
    return [path for path in moved if path is not None]


def _search(sweep: Sweep, entry: Entry, checked: Checked, trials: int) -> SearchPlan:
    tree = entry.config.tree
    return SearchPlan(
        folder=checked.folder.with_name(f"{entry.config.name}-search"),
        name=entry.config.name,
        name_tag=tree.name_tag,
        config_hash=entry.config.hash,
        space=entry.search,
        metric=checked.summary.metric,
        maximize=checked.maximize,
        trials=trials,
        pruner=sweep.pruner,
        seed=tree.seed,
        max_epoch=tree.optim.max_epoch,
    )


def search_status(search: SearchPlan) -> StudyStatus:
    """Status of a search; nothing is written where there is none yet.

    Raises:
        UserError: its folder holds another search.
    """
    return Study(search).status() if search.journal.is_file() else StudyStatus(0, 0, 0, 0)


def select(sweep: Sweep, patterns: Sequence[str]) -> list[Entry]:
    """The entries whose label, column or run folder matches one of the patterns (``*`` and ``?``, case ignored).

    Raises:
        UserError: a pattern matches nothing.
    """
    if not patterns:
        return list(sweep.entries)
    chosen: set[int] = set()
    for pattern in patterns:
        matches = [i for i, entry in enumerate(sweep.entries) if _matches(entry, pattern)]
        if not matches:
            names = {name for entry in sweep.entries for name in _names(entry)}
            raise unknown("entry", pattern, names, "--only", listed="--dry_run without --only")
        chosen.update(matches)
    return [entry for i, entry in enumerate(sweep.entries) if i in chosen]


def _matches(entry: Entry, pattern: str) -> bool:
    return any(fnmatch(name.lower(), pattern.lower()) for name in _names(entry))


def _names(entry: Entry) -> list[str]:
    return [entry.label, entry.grid_label, *([entry.column] if entry.column else []), entry.config.name]
