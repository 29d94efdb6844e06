"""Batches and the rows that count, as the trainer reads them."""

from __future__ import annotations

import pytest
import torch

from graphbench.structures import Batches, DataLoaders, EvaluationPass, GraphBatch
from tests.contract import example_batch


class OneBatch(DataLoaders):
    num_train_batches = 1

    def __init__(self, batch: GraphBatch) -> None:
        nodes = torch.arange(batch.num_nodes)
        self.passes = [EvaluationPass({"train": nodes[::2], "val": nodes[1::2]}, lambda: iter([(batch, None)]))]
        self._batch = batch

    def train(self, epoch: int) -> Batches:
        yield self._batch, self.passes[0].rows["train"]


def test_splits_share_the_predictions_of_one_pass() -> None:
    batch = example_batch((4, 3))
    loaders = OneBatch(batch)
    ((_, rows),) = loaders.train(0)
    for eval_pass in loaders.passes:
        predictions = torch.cat([eval_batch.x for eval_batch, _ in eval_pass.batches()])
        by_split = {split: predictions[index] for split, index in eval_pass.rows.items() if index is not None}
    assert torch.equal(by_split["train"], batch.x[rows])
    assert sum(map(len, by_split.values())) == batch.num_nodes


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        DataLoaders()
