"""Examples that no model of several runs was trained on: those that are validation in all of their splits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from graphbench.errors import UserError
from graphbench.factory.split_data import shared_data
from graphbench.predict.predictions import Predictions
from graphbench.run_inputs import read_finished

if TYPE_CHECKING:
    from graphbench.predict.trained import TrainedModel


class HeldOut(NamedTuple):
    """Predictions on the common validation examples of runs.

    Attributes:
        predictions: R rows, with their targets.
        note: why they are fewer than those of a run, as a sentence; empty where they are not.
    """

    predictions: Predictions
    note: str


def held_out(trained: TrainedModel) -> HeldOut:
    """Predictions on the common validation examples of the runs.

    Args:
        trained: models whose folders are read, and the data of the training with them.

    Raises:
        UserError: the data is missing or another one, or the runs have no validation example in common.
    """
    finished = [read_finished(folder) for folder in trained.folders]
    first, *others = finished
    common = first.splits.val.numpy()
    for other in others:
        if other.raw.store.fingerprint != first.raw.store.fingerprint:
            raise UserError(f"{trained.folders[0]} and {other.record.run_id} were trained on different data.")
        common = np.intersect1d(common, other.splits.val.numpy())
    if not len(common):
        raise UserError(
            "the runs have no validation example in common: what validates one has trained another. Name graphs with "
            "targets, or one run."
        )
    most = max(len(each.splits.val) for each in finished)
    note = ""
    if len(common) < most:
        note = (
            f"Only {len(common)} of a run's {most} validation examples validate all {len(finished)} runs: "
            "name one run, or graphs with targets; runs of one dataset.split_seed have all of them in common."
        )
    transductive, loaded = first.raw.card.transductive, shared_data(first.config, first.raw)
    graphs = None if transductive else common.tolist()
    parts = []
    for run, folder, model in zip(finished, trained.folders, trained.models, strict=True):
        store = run.encoded(loaded).store
        parts.append(replace(trained, models=[model], folders=[folder]).of_store(store, graphs))
    predictions = replace(parts[0], runs=torch.cat([part.runs for part in parts]))
    return HeldOut(predictions.of_rows(torch.from_numpy(common)) if transductive else predictions, note)
