"""Polynormer against its equations: PyG's GATConv on edges, attention over all pairs as a matrix, graph by graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GATConv

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.models.polynormer import Polynormer
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken

DIM, HEADS = 8, 2


def build(**own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, 12, batch_norm=False),
        "dim_encoded": 12,
        "dim": DIM,
        "head": lambda width: NodeHead(width, 3),
        "num_heads": HEADS,
        "local_layers": 2,
    }
    return shaken(registry.construct(Polynormer, {**arguments, **own}).double()).eval()


def local(layer: Any, x: Tensor, batch: GraphBatch, beta: Tensor) -> Tensor:
    peer = GATConv(DIM, DIM // HEADS, heads=HEADS, add_self_loops=False, bias=False).double()
    peer.lin.weight = layer.value.weight
    peer.att_src.data, peer.att_dst.data = layer.att_source.data[None], layer.att_target.data[None]
    new = torch.relu(peer(x, batch.edge_index) + layer.lin(x))
    return (1 - beta) * layer.norm(torch.relu(layer.factor(x)) * new) + beta * new


def over_all_pairs(layer: Any, x: Tensor, sizes: tuple[int, ...], beta: Tensor) -> Tensor:
    key, value, rows = torch.sigmoid(layer.key(x)), layer.value(x), []
    for k, v in zip(key.split(sizes), value.split(sizes)):
        heads = []
        for head_k, head_v in zip(k.chunk(HEADS, 1), v.chunk(HEADS, 1)):
            weight = head_k @ head_k.t()
            heads.append(weight / weight.sum(1, keepdim=True) @ head_v)
        rows.append(torch.cat(heads, 1))
    return torch.relu(layer.lin_out(layer.norm(torch.cat(rows)) * (layer.factor(x) + beta)))


@pytest.mark.parametrize("beta", [None, 0.3])
@pytest.mark.parametrize("global_layers", [0, 2])
def test_model_is_its_equations(beta: float | None, global_layers: int) -> None:
    model, batch = build(beta=beta, global_layers=global_layers), example_batch((6, 1, 5))

    def gate(layer: Any) -> Tensor:
        return torch.sigmoid(layer.gate.value) if beta is None else layer.gate.value

    x, total = model.lin_in(batch.x), torch.zeros(12, DIM, dtype=torch.float64)
    for layer in model.local_layers:
        x = local(layer, x, batch, gate(layer))
        total = total + x
    h = model.norm(total)
    for layer in model.global_layers:
        h = over_all_pairs(layer, h, batch.ragged.sizes, gate(layer))
    torch.testing.assert_close(model(batch), model.head.mlp(h))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"num_heads": 3}, "dim=8, num_heads=3"),
        ({"local_layers": 0}, "local_layers must be at least 1, received 0"),
        ({"global_layers": -1}, "global_layers must be at least 0, received -1"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)
