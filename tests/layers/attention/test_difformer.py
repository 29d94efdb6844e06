"""DIFFormer's layer and GAT's attention over all pairs, against their dense formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.layers.attention.difformer import DIFFormer
from graphbench.layers.attention.global_gat import GlobalGAT
from graphbench.structures import GraphBatch
from tests.contract import alone, example_batch

SIZES = (9, 4)


def heads_of(rows: Tensor, heads: int) -> Tensor:
    """(n, heads, dim) of the projected rows; head c owns a contiguous block of columns."""
    return rows.view(len(rows), heads, -1)


def dense(layer: DIFFormer, graph: GraphBatch) -> Tensor:
    """The released code's formula with matrices: no graph weight is the sum."""
    h, n = graph.x, graph.num_nodes
    q, k = heads_of(layer.q(h), layer.heads), heads_of(layer.k(h), layer.heads)
    v = h.unsqueeze(1).expand_as(q) if layer.v is None else heads_of(layer.v(h), layer.heads)
    if layer.kernel == "simple":
        weights = 1 + torch.einsum("ihd,jhd->hij", q / q.norm(), k / k.norm())
    else:
        weights = torch.sigmoid(torch.einsum("ihd,jhd->hij", q, k))
    spread = torch.einsum("hij,jhd->ihd", weights / weights.sum(2, keepdim=True), v)
    if layer.reads_edges:
        adjacency = torch.eye(n, dtype=h.dtype)
        adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
        scale = adjacency.sum(1).rsqrt()
        near = torch.einsum("ij,jhd->ihd", scale[:, None] * adjacency * scale, v)
        weight = layer.graph_weight
        spread = spread + near if weight is None else (1 - weight) * spread + weight * near
    return spread.mean(1)


@pytest.mark.parametrize("kernel", ["simple", "sigmoid"])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(
    "own",
    [{}, {"use_weight": False}, {"use_graph": False}, {"graph_weight": 0.3}],
    ids=["sum", "raw", "alone", "mixed"],
)
def test_equals_the_dense_formula(kernel: str, heads: int, own: dict[str, Any]) -> None:
    layer, batch = DIFFormer(12, heads, kernel=kernel, **own).double(), example_batch(SIZES)
    out = layer(batch.x, None, batch)
    expected = torch.cat([dense(layer, alone(batch, graph)) for graph in range(2)])
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("use_weight", [True, False])
def test_parameters(use_weight: bool) -> None:
    count = sum(p.numel() for p in DIFFormer(6, 2, use_weight=use_weight).parameters())
    assert count == (3 if use_weight else 2) * 2 * 6 * 7


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"kernel": "softmax"}, "kernel must be one of simple, sigmoid; received 'softmax'"),
        ({"graph_weight": 1.5}, r"between 0 and 1 and needs use_graph, received 1.5"),
        ({"graph_weight": 0.5, "use_graph": False}, "use_graph=False"),
    ],
)
def test_refused_arguments(argument: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DIFFormer(12, 1, **argument)


@pytest.mark.parametrize("heads", [1, 3])
def test_global_gat_is_gat_on_the_complete_graph(heads: int) -> None:
    """PyG's convolution on all pairs; its heads are averaged with ``concat=False``."""
    from torch_geometric.nn import GATConv

    layer, batch = GlobalGAT(12, heads).double(), example_batch((7,))
    peer = GATConv(12, 12, heads=heads, concat=False, bias=False).double()
    peer.lin.weight.data = layer.lin.weight.data
    peer.att_src.data, peer.att_dst.data = layer.att_key.data, layer.att_query.data
    pairs = torch.cartesian_prod(torch.arange(7), torch.arange(7)).t()
    torch.testing.assert_close(layer(batch.x, None, batch), peer(batch.x, pairs))
