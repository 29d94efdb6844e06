"""Normalisations with what stands around them: one operator or one module after the other, the same numbers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from graphbench.layers.dropout import Dropout
from graphbench.layers.norm import make_norm
from graphbench.layers.normed import Normed, normed, normed_sum
from tests.contract import example_batch

DIM = 6
ACTS = {"none": None, "relu": nn.ReLU(), "gelu": nn.GELU()}


def formula(output: Normed) -> Tensor:
    """With torch's normalisation."""
    x = output.h if output.added is None else output.h + output.added
    own = output.norm
    x = nn.functional.batch_norm(x, None, None, own.weight, own.bias, training=True)
    x = x if output.act is None else output.act(x)
    return x if output.residual is None else output.residual + x


@pytest.mark.parametrize("act", ACTS)
def test_every_output_is_that_of_its_modules(act: str) -> None:
    batch = example_batch([4, 7], seed=0)
    nodes, edges = batch.num_nodes, batch.edge_index.shape[1]
    h, more, old = (torch.randn(nodes, DIM) for _ in range(3))
    outputs = [
        Normed(make_norm("batch", DIM), h, added=more, added_dropout=Dropout(0.0), act=ACTS[act], residual=old),
        Normed(make_norm("batch", DIM), torch.randn(edges, DIM), "edge", act=ACTS[act], dropout=Dropout(0.0)),
    ]
    for received, output in zip(normed(outputs, batch), outputs, strict=True):
        torch.testing.assert_close(received, formula(output))


@pytest.mark.parametrize("norm", ["batch", "layer", "node", "graph", "none"])
def test_a_sum_is_that_of_every_output(norm: str) -> None:
    batch = example_batch([4, 7], seed=0)
    outputs = [Normed(make_norm(norm, DIM), torch.randn(batch.num_nodes, DIM)) for _ in range(3)]
    each = [copy.deepcopy(output.norm)(output.h, batch) for output in outputs]
    torch.testing.assert_close(normed_sum(outputs, batch), each[0] + each[1] + each[2])
