"""GNN+'s layers against PyG's convolutions and torch's modules, in evaluation and in training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv, GINEConv

from graphbench.layers.blocks.gnn_plus import GatedGCNPlus, GCNEdgesPlus, GCNPlus, GINEPlus, PlusSettings
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken

DIM = 12


def norm_of(norm: Any) -> nn.BatchNorm1d:
    peer = nn.BatchNorm1d(DIM).double().train(norm.training)
    peer.load_state_dict(norm.state_dict(), strict=False)
    return peer


def wrapped(layer: Any, h: Tensor, new: Tensor) -> Tensor:
    """The residual, and the feed-forward network between norms."""
    x = h + new if layer.residual else new
    if layer.feed_forward is None:
        return x
    x = norm_of(layer.norm_in)(x)
    ffn = layer.feed_forward
    return norm_of(layer.norm_out)(x + ffn.lin_out(F.gelu(ffn.lin_in(x))))


def gcn(layer: GCNPlus, batch: GraphBatch) -> Tensor:
    peer = GCNConv(DIM, DIM).double()
    weight, bias = sorted(layer.conv.parameters(), key=lambda parameter: -parameter.dim())
    peer.load_state_dict({"lin.weight": weight, "bias": bias})
    return F.gelu(norm_of(layer.norm)(peer(batch.x, batch.edge_index)))


def gcne(layer: GCNEdgesPlus, batch: GraphBatch) -> Tensor:
    source, target = batch.edge_index
    message = torch.relu((batch.x @ layer.conv.lin.weight.t())[source] + batch.edge_attr)
    total = torch.zeros_like(batch.x).index_add(0, target, message) + layer.conv.bias
    return F.gelu(norm_of(layer.norm)(total))


def gine(layer: GINEPlus, batch: GraphBatch) -> Tensor:
    first, _, second = layer.conv.mlp
    network = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM)).double()
    peer = GINEConv(network)  # which draws its parameters anew
    network[0].load_state_dict(first.state_dict())
    network[2].load_state_dict(second.state_dict())
    return torch.relu(peer(batch.x, batch.edge_index, batch.edge_attr))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("own", [{}, {"residual": True, "ffn": False}, {"residual": True}], ids=str)
@pytest.mark.parametrize(("kind", "peer"), [(GCNPlus, gcn), (GCNEdgesPlus, gcne), (GINEPlus, gine)])
def test_a_layer_is_its_convolution_wrapped(kind: Any, peer: Any, own: dict[str, bool], training: bool) -> None:
    layer = shaken(kind(PlusSettings(DIM, DIM, act="gelu", **own)).double()).train(training)
    batch = example_batch((6, 1, 5))
    expected = wrapped(layer, batch.x, peer(layer, batch))
    h, e, _ = layer(batch.x, batch.edge_attr, batch)
    torch.testing.assert_close(h, expected)
    assert e is batch.edge_attr


@pytest.mark.parametrize("residual", [False, True])
def test_gated_gcn_is_its_equations(residual: bool) -> None:
    layer = shaken(GatedGCNPlus(PlusSettings(DIM, DIM, act="gelu", residual=residual)).double()).eval()
    batch, core = example_batch((6, 1, 5)), layer.conv
    h, (source, target) = batch.x, batch.edge_index
    gate = core.gate_edge(batch.edge_attr) + core.gate_target(h)[target] + core.gate_source(h)[source]
    weight = torch.sigmoid(gate)
    zeros = torch.zeros_like(h)
    total = zeros.index_add(0, target, weight * core.lin_neighbor(h)[source])
    new = core.lin_self(h) + total / (zeros.index_add(0, target, weight) + 1e-6)
    x = torch.relu(norm_of(core.node_norm)(new)) + (h if residual else 0)
    e = torch.relu(norm_of(core.edge_norm)(gate)) + (batch.edge_attr if residual else 0)
    x = norm_of(layer.norm_in)(x)
    ffn = layer.feed_forward
    x = norm_of(layer.norm_out)(x + ffn.lin_out(F.gelu(ffn.lin_in(x))))
    received = layer(h, batch.edge_attr, batch)
    torch.testing.assert_close(received[0], x)
    torch.testing.assert_close(received[1], e)


def test_edges_are_needed() -> None:
    batch = example_batch((6,))
    with pytest.raises(ValueError, match="gcne needs edge states"):
        GCNEdgesPlus(PlusSettings(DIM)).double()(batch.x, None, batch)
