"""Queries, keys and values that have no heads, or do not fit, are refused by every attention, with their shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.decay_attention import decay_attention
from graphbench.ops.edge_attention import edge_attention
from graphbench.ops.focal_attention import focal_attention
from graphbench.ops.linear_attention import linear_attention
from graphbench.ops.operands import check_qkv
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.sparse_flow import sparse_flow
from graphbench.structures import PairBlocks, Ragged
from graphbench.structures.adjacency import adjacency

RAGGED = Ragged.from_sizes(torch.tensor([3, 2]))
EDGES = adjacency(torch.tensor([[0, 1], [2, 2]]), 5)
HOPS = torch.zeros(13, dtype=torch.uint8)
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
ATTENTIONS: dict[str, Attention] = {
    "softmax": lambda q, k, v: softmax_attention(q, k, v, RAGGED),
    "linear": lambda q, k, v: linear_attention(q, k, v, RAGGED),
    "flow": lambda q, k, v: sparse_flow(q, k, None, None, v, RAGGED, lam=torch.ones(2)),
    "decay": lambda q, k, v: decay_attention(q, k, v, RAGGED, HOPS, torch.ones(2), decay=0.5),
    "focal": lambda q, k, v: focal_attention(q, k, v, RAGGED, PairBlocks(HOPS, (3, 2)), 2),
    "edge": lambda q, k, v: edge_attention(EDGES, q, k, v),
}
SHAPES = [((5, 4), (5, 4), (5, 4)), ((5, 2, 4), (5, 2, 6), (5, 2, 4)), ((7, 2, 4), (7, 2, 4), (7, 2, 4))]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_shapes_that_do_not_fit(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match=r"q, k must be \(5, H, d\).*received \("):
        ATTENTIONS[name](*(torch.randn(shape) for shape in shapes))


def test_values_without_heads() -> None:
    q = torch.randn(5, 2, 4)
    with pytest.raises(ValueError, match=r"v \(5, H, e\), received \(5, 2, 4\), \(5, 2, 4\), \(5, 2\)"):
        check_qkv(q, q, q[:, :, 0], 5)
    check_qkv(q, q, torch.randn(5, 2, 7), 5)
