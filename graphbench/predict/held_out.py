"""Examples that no model of several runs was trained on: those that are validation in all of their splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from graphbench.errors import UserError
from graphbench.factory.data import encode
from graphbench.predict.predictions import Predictions
from graphbench.run_inputs import read_finished

if TYPE_CHECKING:
    from graphbench.predict.trained import TrainedModel


def held_out(trained: TrainedModel) -> tuple[Predictions, Tensor]:
    """Predictions on the common validation examples of the runs, and their targets.

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
    examples, store = torch.from_numpy(common), encode(first.config, first.raw).store
    assert store.y is not None
    if first.raw.card.transductive:
        return trained.of_store(store).of_rows(examples), store.y[examples]
    targets = store.gather(examples).y
    assert targets is not None
    return trained.of_store(store, common.tolist()), targets
