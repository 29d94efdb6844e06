"""EGT's layer against its equations with dense matrices of pairs, graph by graph, over two layers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.layers.blocks.egt import STATES, EGTLayer
from graphbench.structures import GraphBatch
from tests.contract import alone, example_batch, shaken

SIZES = (6, 1, 11)


def ffn(part: Any, x: Tensor) -> Tensor:
    return part.lin_out(torch.nn.functional.elu(part.lin_in(x)))


def dense(layer: EGTLayer, h: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """One graph: h (n, 12), z (n, n, 8)."""
    x, y = layer.norm_nodes(h), layer.norm_pairs(z)
    q, k, v = layer.qkv(x).split(12, 1)
    scores, heads = [], []
    gate = torch.sigmoid(layer.gates(y))
    for head in range(3):
        c = slice(4 * head, 4 * head + 4)
        score = (q[:, c] @ k[:, c].t() / math.sqrt(4)).clamp(-5, 5) + layer.scores(y)[:, :, head]
        weight = torch.softmax(score, 1) * gate[:, :, head]
        mixed = weight @ v[:, c]
        if layer.scale_degree:
            mixed = mixed * torch.log(1 + gate[:, :, head].sum(1))[:, None]
        scores.append(score)
        heads.append(mixed)
    h = h + layer.out_nodes(torch.cat(heads, 1))
    z = z + layer.out_pairs(torch.stack(scores, 2))
    return h + ffn(layer.ffn_nodes, layer.norm_ffn_nodes(h)), z + ffn(layer.ffn_pairs, layer.norm_ffn_pairs(z))


def first_states(layer: EGTLayer, graph: GraphBatch) -> Tensor:
    n = graph.num_nodes
    z = torch.empty(n, n, 8, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            hops = int(graph.pairs.block(0)[i, j])
            z[i, j] = layer.hop_emb.weight[min(hops, layer.max_hop + 1)]
    for (source, target), e in zip(graph.edge_index.t().tolist(), graph.edge_attr):
        z[target, source] += e
    return z


@pytest.mark.parametrize("scale_degree", [True, False])
def test_two_layers_are_their_equations(scale_degree: bool) -> None:
    first, second = (
        shaken(EGTLayer(12, 3, dim_edge=8, max_hop=2, scale_degree=scale_degree).double(), seed) for seed in (0, 1)
    )
    second.tie(first)
    batch = example_batch(SIZES, edge_dim=8)
    h, e, after = first(batch.x, batch.edge_attr, batch)
    h, e, after = second(h, e, after)
    nodes, pairs, edges = [], [], []
    for number in range(len(SIZES)):
        graph = alone(batch, number)
        state, z = dense(second, *dense(first, graph.x, first_states(first, graph)))
        nodes.append(state)
        pairs.append(z.flatten(0, 1))
        edges.append(z[graph.edge_index[1], graph.edge_index[0]])
    torch.testing.assert_close(h, torch.cat(nodes))
    torch.testing.assert_close(e, torch.cat(edges))
    torch.testing.assert_close(after.state.edge_states[STATES], torch.cat(pairs))


def test_distances_are_needed() -> None:
    batch = example_batch(pairs=False)
    with pytest.raises(ValueError, match="ShortestPaths"):
        EGTLayer(12, 3, dim_edge=12).double()(batch.x, batch.edge_attr, batch)


@pytest.mark.parametrize(
    ("own", "message"),
    [({"heads": 5}, "dim=12, heads=5"), ({"max_hop": 0}, "max_hop must be at least 1, received 0")],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EGTLayer(**{"dim": 12, "heads": 3, "dim_edge": 8, **own})
