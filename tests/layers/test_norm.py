"""Norms against PyG and torch, and where those have no answer."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphNorm as PyGGraphNorm
from torch_geometric.nn import LayerNorm

from graphbench.layers.norm import BatchNorm, GraphLayerNorm, GraphNorm, make_norm
from tests.contract import example_batch


@pytest.mark.parametrize(("ours", "theirs"), [(GraphLayerNorm, LayerNorm), (GraphNorm, PyGGraphNorm)])
def test_norm_per_graph_equals_pyg(ours: type, theirs: type) -> None:
    batch, theirs, ours = example_batch(), theirs(12).double(), ours(12).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_()
    theirs.load_state_dict(ours.state_dict())
    x = batch.x.requires_grad_()
    out, expected = ours(x, batch), theirs(x, batch.ragged.graph_id)
    torch.testing.assert_close(out, expected)
    seed = torch.randn_like(out)
    names = [name for name, _ in ours.named_parameters()]
    found = torch.autograd.grad(out, (x, *(getattr(ours, name) for name in names)), seed)
    wanted = torch.autograd.grad(expected, (x, *(getattr(theirs, name) for name in names)), seed)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("kind", [GraphLayerNorm, GraphNorm])
def test_norm_of_a_large_offset_in_float32(kind: type) -> None:
    """The mean is taken out before squaring: an offset of 1000 must not eat the variance."""
    batch = example_batch((40, 3), node_dim=8, dtype=torch.float32)
    norm = kind(8)
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


@pytest.mark.parametrize(("kind", "parameters"), [("batch", 14), ("layer", 14), ("graph", 21), ("none", 0)])
def test_make_norm(kind: str, parameters: int) -> None:
    batch = example_batch(node_dim=7)
    norm = make_norm(kind, 7).double()
    assert sum(p.numel() for p in norm.parameters()) == parameters
    assert norm(batch.x, batch).shape == batch.x.shape


def test_make_norm_refuses_unknown_names() -> None:
    with pytest.raises(ValueError, match="'layr', did you mean 'layer'"):
        make_norm("layr", 7)


def test_layer_norm_of_every_node() -> None:
    norm, batch = make_norm("node", 6), example_batch((3, 1, 4), node_dim=6)
    h = batch.x.float()
    expected = (h - h.mean(1, keepdim=True)) / (h.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(norm(h, batch), expected)
