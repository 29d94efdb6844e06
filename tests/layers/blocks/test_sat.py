"""SAT's layer against its equations with dense attention, graph by graph; message passing by PyG's convolutions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, GINEConv

from graphbench.layers.blocks.sat import SATLayer
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken


def subtrees(layer: SATLayer, batch: GraphBatch, gnn_type: str) -> Tensor:
    states = [batch.x]
    for conv in layer.structure.layers:
        if gnn_type == "GCN":
            peer = GCNConv(12, 12).double()
            peer.lin.weight, peer.bias = conv.lin.weight, conv.bias
            states.append(torch.relu(peer(states[-1], batch.edge_index)))
        else:
            peer = GINEConv(conv.mlp).double()
            states.append(torch.relu(peer(states[-1], batch.edge_index, batch.edge_attr)))
    return layer.structure.out(layer.structure.norm(torch.cat(states, 1)))


@pytest.mark.parametrize("gnn_type", ["GCN", "GINE"])
@pytest.mark.parametrize(("symmetric", "scaled", "norm"), [(False, True, "batch"), (True, False, "layer")])
def test_layer_is_its_equations(gnn_type: str, symmetric: bool, scaled: bool, norm: Any) -> None:
    layer = SATLayer(
        12, 3, dim_edge=12, gnn_type=gnn_type, hops=2, norm=norm, scale_by_degree=scaled, symmetric=symmetric
    )
    layer = shaken(layer.double()).eval()
    batch = example_batch((6, 1, 4))
    qk = subtrees(layer, batch, gnn_type) @ layer.qk.weight.t()
    q, k = (qk, qk) if symmetric else qk.chunk(2, dim=1)
    v = batch.x @ layer.v.weight.t()
    mixed = []
    for rows in torch.arange(batch.num_nodes).split(batch.ragged.sizes):
        heads = [
            torch.softmax(q[rows, c] @ k[rows, c].t() / 2, 1) @ v[rows, c]
            for c in (slice(0, 4), slice(4, 8), slice(8, 12))
        ]
        mixed.append(torch.cat(heads, 1))
    new = layer.out(torch.cat(mixed))
    if scaled:
        new = new * (1 + torch.bincount(batch.edge_index[0], minlength=batch.num_nodes)[:, None]) ** -0.5
    x = layer.norm_attention(batch.x + new)
    expected = layer.norm_ffn(x + layer.feed_forward.lin_out(torch.relu(layer.feed_forward.lin_in(x))))
    torch.testing.assert_close(layer(batch.x, batch.edge_attr, batch)[0], expected)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"heads": 5}, "dim=12, heads=5"),
        ({"hops": -1}, "hops must be at least 0, received -1"),
        ({"norm": "graph"}, "norm must be one of batch, layer; received 'graph'"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SATLayer(**{"dim": 12, "heads": 3, **own})
