"""How a batch gets into the model in another precision."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.structures import GraphBatch
from graphbench.train.forward import BatchAdapter, OpaqueBatch
from tests.contract import example_batch


class Asked(nn.Module):
    """Returns the rows asked for, and keeps what it was called with."""

    def forward(self, batch: GraphBatch) -> Tensor:
        self.batch = batch
        assert batch.state.seed_nodes is not None
        return batch.x[batch.state.seed_nodes]


def test_a_cast_batch_keeps_the_state_of_every_call() -> None:
    batch, adapter = example_batch((4,), dtype=torch.float32), BatchAdapter(Asked(), torch.float64)
    seen = []
    for row in (3, 1):
        prediction, _ = adapter(OpaqueBatch(batch.with_state(seed_nodes=torch.tensor([row]))))
        assert torch.equal(prediction, batch.x[[row]].double())
        seen.append(adapter.model.batch.x)
    assert seen[0] is seen[1]  # cast once
