"""Whether the finished runs of a sweep were made of what its entries name today."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.config.config import flat
from graphbench.data.builder import LoadedDataset
from graphbench.data.files.download import no_downloads
from graphbench.errors import UserError
from graphbench.factory.data import read_data
from graphbench.preflight import Checked, declared_identity
from graphbench.run_inputs import pretrained_identity, run_inputs
from graphbench.sweeps.study import Study

if TYPE_CHECKING:
    from graphbench.sweeps.plan import PlannedEntry


def check_finished(planned: Sequence[PlannedEntry], *, overwrite: bool = False) -> tuple[list[str], list[Path]]:
    """Compares finished runs and trials with today's data, splits and weights, before others are trained beside them.

    Every data set is read once, one at a time.

    Args:
        planned: entries of the sweep.
        overwrite: runs that were made of something else are renamed aside.

    Returns:
        Sentences about runs that could not be compared, because their data are not at hand; the new folders of those
        that were renamed.

    Raises:
        UserError: a finished run was made of something else, and is not to be overwritten.
    """
    begun = [entry for entry in planned if (entry.ended if entry.search else entry.finished)]
    entries = sorted(begun, key=_data_settings)
    notes, moved = list[str](), list[Path]()
    for _, members in itertools.groupby(entries, key=_data_settings):
        same_data = list(members)
        try:
            with no_downloads():
                loaded = read_data(same_data[0].checked.config)
        except UserError as error:
            names = ", ".join(entry.entry.config.name for entry in same_data)
            notes.append(f"finished runs of {names} are taken as they are, their data cannot be read: {error}")
            continue
        for entry in same_data:
            moved += _check_entry(entry, loaded, overwrite)
    return notes, moved


def _check_entry(entry: PlannedEntry, loaded: LoadedDataset, overwrite: bool) -> list[Path]:
    """New folders of runs that were renamed aside."""
    config, runs = entry.checked.config, entry.checked.runs
    if entry.search is not None:
        if entry.search.same_data:
            Study(entry.search).check_inputs(run_inputs(config, loaded, runs[0]).identity)
        return []
    moved: list[Path | None] = []
    for run in runs:
        if run.run_id in entry.finished:
            directory, identity = entry.checked.directory(run), run_inputs(config, loaded, run).identity
            if overwrite:
                moved.append(directory.set_aside_another(identity))
            else:
                directory.refuse_another(identity)
    return [path for path in moved if path is not None]


def _data_settings(planned: PlannedEntry) -> str:
    """Settings that a data set is read by, and which of several files of one name its function is in."""
    config = planned.checked.config
    tree, function = config.tree, config.component_args("dataset", "custom").get("function") or ""
    values = flat({"dataset": tree.dataset, "prep": tree.prep, "compat": tree.compat, "head": tree.gnn.head})
    neutral = ("dataset.split", "dataset.node_encoder", "dataset.edge_encoder")  # what is done with the graphs later
    settings = {key: value for key, value in values.items() if not key.startswith(neutral)}
    return json.dumps([settings, str(config.beside(function.rpartition(":")[0]))])


def finished_runs(checked: Checked) -> frozenset[int]:
    """Ids of the finished runs of the same configuration and plug-ins."""
    records = ((run, checked.directory(run).record) for run in checked.runs)
    return frozenset(
        run.run_id
        for run, record in records
        if record is not None
        and record.status == "finished"
        and not record.identity.differences_of_one_run(declared_identity(checked.config, run))
    )


def stale_runs(
    checked: Checked, sources: Mapping[int, Path], waiting: Collection[int], overwrite: bool
) -> frozenset[int]:
    """Ids of the runs that lie in the way, since the run that they started from is another today or will be.

    Args:
        checked: starts from another entry's runs.
        sources: run id -> folder of that run.
        waiting: ids of those whose base is still to be trained. Without ``overwrite`` they are compared after that.
        overwrite: whether they will be moved aside.

    Raises:
        UserError: there are some, and they are not to be overwritten.
    """
    stale = set()
    for run in checked.runs:
        directory = checked.directory(run)
        record = directory.record
        if record is None:
            continue
        if run.run_id in waiting:
            stale |= {run.run_id} if overwrite else set()
            continue
        weights = pretrained_identity(checked.config, sources[run.run_id])
        identity = declared_identity(checked.config, run).joined(weights)
        if not overwrite:
            directory.refuse_another(identity)
        elif record.identity.differences_of_one_run(identity):
            stale.add(run.run_id)
    return frozenset(stale)
