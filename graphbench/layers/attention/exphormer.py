"""Sparse attention along edges, expander edges and virtual nodes (https://arxiv.org/abs/2303.06147)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import check_multiple
from graphbench.layers.contract import StatefulAttention
from graphbench.ops.edge_attention import edge_attention
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency, adjacency


@register("Exphormer")
class Exphormer(StatefulAttention):
    """Sparse attention along the pairs that :class:`~graphbench.encoders.expander.ExpanderEdges` puts together.

    Equation, per head::

        h'_t = sum_s w_st V h_s / (sum_s w_st + 1e-6)
        w_st = exp(clamp(sum_c (K h_s)_c (Q h_t)_c (E e_st)_c / sqrt(d)))

    over the pairs s -> t: graph edges, expander edges, and both directions between every node and every virtual node
    of its graph; the exponent is clamped to -5 .. 5. Q = ``q``, K = ``k``, V = ``v``, E = ``edge``. The new states of
    virtual nodes are passed to the next layer in ``state.virtual_nodes``.

    Args:
        dim: channels of input and output, divisible by ``heads``.
        heads: H; d = dim / H.
        dim_edge: channels of the features of pairs.
        bias: Q, K, V and E have one.

    Shape:
        h (N, dim) -> (N, dim), and the batch with new virtual nodes. ``state.edge_states["exp"]`` (M, dim_edge)
        describes the pairs ``edge_sets["exp"]``; a batch without that edge set is attended along its edges and ``e``.

    Differences from the paper: no output projection (as in the released code).
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self, dim: FromContext[int], heads: FromContext[int], *, dim_edge: FromContext[int], bias: bool = False
    ) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=bias)
        self.k = nn.Linear(dim, dim, bias=bias)
        self.v = nn.Linear(dim, dim, bias=bias)
        self.edge = nn.Linear(dim_edge, dim, bias=bias)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """New node states (N, dim), without residual and norm, and the batch with new virtual nodes."""
        nodes = h.shape[0]
        attr = batch.state.edge_states["exp"] if "exp" in batch.edge_sets else e
        if attr is None:
            raise ValueError("Exphormer needs features of the pairs, received none (an edge encoder supplies them)")
        factors = self.edge(attr)
        num_virtual = 0
        if batch.state.virtual_nodes is not None:
            h = torch.cat([h, batch.state.virtual_nodes])
            directions = self.edge(batch.state.virtual_edges)  # one row per virtual node and direction
            num_virtual = directions.shape[0] // 2
            factors = torch.cat([factors, directions.unsqueeze(1).expand(-1, nodes, -1).flatten(0, 1)])
        edges_only = not num_virtual and "exp" not in batch.edge_sets
        pairs = batch.adjacency() if edges_only else batch.derived(_pairs, num_virtual)
        q = self.q(h).unflatten(1, (self.heads, -1))
        k = self.k(h).unflatten(1, (self.heads, -1))
        v = self.v(h).unflatten(1, (self.heads, -1))
        factors = factors.unflatten(1, (self.heads, -1))
        out = edge_attention(pairs, q, k, v, factors, clamp=5.0, eps=1e-6).flatten(1)
        if num_virtual:
            batch = batch.with_state(virtual_nodes=out[nodes:])
        return out[:nodes], batch

    def extra_repr(self) -> str:
        """Heads, in ``print(model)``."""
        return f"heads={self.heads}"


def _pairs(batch: GraphBatch, num_virtual: int) -> Adjacency:
    """The pairs of a batch, then for every virtual node v: nodes -> v, v -> nodes.

    Virtual node v of graph g has the number N + v * G + g.
    """
    index = batch.edge_sets["exp"].index if "exp" in batch.edge_sets else batch.edge_index
    nodes = torch.arange(batch.num_nodes, device=batch.device)
    parts = [index]
    for v in range(num_virtual):
        star = torch.stack([nodes, batch.num_nodes + v * batch.num_graphs + batch.ragged.graph_id])
        parts += [star, star.flip(0)]
    return adjacency(torch.cat(parts, dim=1), batch.num_nodes + num_virtual * batch.num_graphs)
