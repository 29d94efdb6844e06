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


def check_finished(planned: Sequence[PlannedEntry]) -> list[str]:
    """Compares finished runs and trials with today's data, splits and weights, before others are trained beside them.

    Every data set is read once, one at a time.

    Returns:
        Sentences about runs that could not be compared, because their data are not at hand.

    Raises:
        UserError: a finished run was made of something else.
    """
    begun = [entry for entry in planned if (entry.ended if entry.search else entry.finished)]
    entries = sorted(begun, key=_data_settings)
    notes = []
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
            _check_entry(entry, loaded)
    return notes


def _check_entry(entry: PlannedEntry, loaded: LoadedDataset) -> None:
    config, runs = entry.checked.config, entry.checked.runs
    if entry.search is not None:
        if entry.search.same_data:
            Study(entry.search).check_inputs(run_inputs(config, loaded, runs[0]).identity)
        return
    for run in runs:
        if run.run_id in entry.finished:
            entry.checked.directory(run).refuse_another(run_inputs(config, loaded, run).identity)


def _data_settings(planned: PlannedEntry) -> str:
    """Settings that a data set is read by, and which of several files of one name its function is in."""
    config = planned.checked.config
    tree, function = config.tree, config.component_args("dataset", "custom").get("function") or ""
    values = flat({"dataset": tree.dataset, "prep": tree.prep, "compat": tree.compat, "head": tree.gnn.head})
    neutral = ("dataset.split", "dataset.node_encoder", "dataset.edge_encoder")  # what is done with the graphs later
    settings = {key: value for key, value in values.items() if not key.startswith(neutral)}
    return json.dumps([settings, str(config.beside(function.rpartition(":")[0]))])


def finished_runs(checked: Checked) -> frozenset[int]:
    """Ids of the finished runs with the same configuration."""
    records = {run.run_id: checked.directory(run).record for run in checked.runs}
    return frozenset(
        run_id
        for run_id, record in records.items()
        if record is not None and (record.status, record.config_hash) == ("finished", checked.config.hash)
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
