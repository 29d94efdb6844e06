"""Whether the finished runs of a sweep were made of what its entries name today."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from graphbench.config.config import flat
from graphbench.data.files.download import no_downloads
from graphbench.errors import UserError
from graphbench.factory.data import read_data
from graphbench.run_inputs import run_inputs
from graphbench.sweeps.plan import PlannedEntry


def check_finished(planned: Sequence[PlannedEntry]) -> list[str]:
    """Compares finished runs with today's data, splits and weights, before others are trained beside them.

    Every data set is read once, one at a time.

    Returns:
        Sentences about runs that could not be compared, because their data are not at hand.

    Raises:
        UserError: a finished run was made of something else.
    """
    entries = sorted((entry for entry in planned if entry.finished and not entry.search), key=_data_settings)
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
            for run in entry.checked.runs:
                if run.run_id in entry.finished:
                    inputs = run_inputs(entry.checked.config, loaded, run)
                    entry.checked.directory(run).refuse_another(inputs.identity)
    return notes


def _data_settings(planned: PlannedEntry) -> str:
    """Everything that a data set is read by."""
    tree = planned.checked.config.tree
    values = flat({"dataset": tree.dataset, "prep": tree.prep, "compat": tree.compat, "head": tree.gnn.head})
    neutral = ("dataset.split", "dataset.node_encoder", "dataset.edge_encoder")  # what is done with the graphs later
    return json.dumps({key: value for key, value in values.items() if not key.startswith(neutral)})
