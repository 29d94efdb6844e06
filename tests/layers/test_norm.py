"""Norms against PyG and torch, and where those have no answer."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import LayerNorm

from graphbench.layers.norm import BatchNorm, GraphLayerNorm, make_norm
from tests.contract import example_batch


def test_graph_layer_norm_equals_pyg() -> None:
    batch, theirs, ours = example_batch(), LayerNorm(12).double(), GraphLayerNorm(12).double()
    with torch.no_grad():
        for name in ("weight", "bias"):
            value = torch.randn(12)
            getattr(theirs, name).copy_(value)
            getattr(ours, name).copy_(value)
    x = batch.x.requires_grad_()
    out, expected = ours(x, batch), theirs(x, batch.ragged.graph_id)
    torch.testing.assert_close(out, expected)
    seed = torch.randn_like(out)
    found = torch.autograd.grad(out, (x, ours.weight, ours.bias), seed)
    wanted = torch.autograd.grad(expected, (x, theirs.weight, theirs.bias), seed)
    torch.testing.assert_close(found, wanted)


def test_graph_layer_norm_of_a_large_offset_in_float32() -> None:
    """The mean is taken out before squaring: an offset of 1000 must not eat the variance."""
    batch = example_batch((40, 3), node_dim=8, dtype=torch.float32)
    norm = GraphLayerNorm(8)
    torch.testing.assert_close(norm(batch.x + 1000, batch), norm(batch.x, batch), rtol=0, atol=2e-3)


def test_batch_norm_equals_torch() -> None:
    ours, theirs, x = BatchNorm(5), nn.BatchNorm1d(5), torch.randn(9, 5)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=0)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=0, atol=0)


@pytest.mark.parametrize("rows", [0, 1])
def test_batch_norm_of_too_few_rows_uses_and_keeps_the_running_statistics(rows: int) -> None:
    norm, x = BatchNorm(5), torch.randn(rows, 5)
    norm.running_mean.fill_(2.0)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    torch.testing.assert_close(norm(x), (x - 2) / (1 + norm.eps) ** 0.5)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


@pytest.mark.parametrize(("kind", "parameters"), [("batch", 14), ("layer", 14), ("none", 0)])
def test_make_norm(kind: str, parameters: int) -> None:
    batch = example_batch(node_dim=7)
    norm = make_norm(kind, 7).double()
    assert sum(p.numel() for p in norm.parameters()) == parameters
    assert norm(batch.x, batch).shape == batch.x.shape


def test_make_norm_refuses_unknown_names() -> None:
    with pytest.raises(ValueError, match="'layr', did you mean 'layer'"):
        make_norm("layr", 7)
