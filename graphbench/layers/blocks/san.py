"""The layers of SAN (https://arxiv.org/abs/2106.03893) and of the variant that GraphGPS calls SAN2."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.contract import TiesParameters
from graphbench.errors import check_multiple
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm, make_norm
from graphbench.layers.normed import add_norm
from graphbench.ops.edge_attention import edge_attention
from graphbench.ops.library import library_op
from graphbench.ops.propagate import gather, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

Weighting = Literal["clamped_exp", "softmax"]
"""Attention weights from scores (B, heads, L, L) and a mask (B, 1, L, L) of the pairs that count; 0 for the others."""


@register("SANLayer")
class SANLayer(Block, TiesParameters):
    """SAN's layer: attention with separate weights for edges and for all other pairs, then a feed-forward network.

    Equations, per head of width d, for messages from s to t::

        w_st = exp(clamp(q_t . (k_s * E e_st) / sqrt(d)))  / (1 + gamma)           s -> t is an edge
        w_st = exp(clamp(q'_t . (k'_s * E' f) / sqrt(d))) * gamma / (1 + gamma)    it is none, and s != t
        out  = sum_s w_st v_s / (sum_s w_st + 1e-6)
        x    = norm(h + W_O drop(out))
        h'   = norm(x + W_2 drop(relu(W_1 x)))

    q, k, v, q', k' = linear maps of h; f is one learned feature for all pairs without an edge; the exponent is clamped
    to -5 .. 5. Without ``full_graph`` only edges count, and 1 / (1 + gamma) is left out.

    Args:
        dim: channels of nodes, divisible by ``heads``.
        heads: number of heads.
        dim_edge: channels of the edge states; None: as ``dim``.
        dropout: probability of dropping an entry of ``out`` and inside the feed-forward network.
        norm: ``"batch"``, ``"layer"`` (per node) or ``"none"``.
        residual: add h and x as in the equations.
        full_graph: attend to pairs that are no edges.
        gamma: weight of the other pairs relative to edges.
        use_bias: projections of the attention have biases.

    Shape:
        h (N, dim), e (E, dim_edge) -> h' (N, dim); edge states pass through.

    Differences from the paper: edge states are not updated, as in GraphGPS.
    """

    capturable: ClassVar[bool] = True
    needs_edges: ClassVar[bool] = True
    gamma: float | nn.Parameter
    fake_edge_emb: nn.Embedding | None

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dim_edge: FromContext[int | None] = None,
        dropout: FromContext[float] = 0.0,
        norm: FromContext[str] = "batch",
        residual: FromContext[bool] = True,
        full_graph: FromContext[bool] = True,
        gamma: FromContext[float] = 1e-5,
        use_bias: bool = False,
    ) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        self.heads = heads
        self.residual = residual
        self.gamma = gamma
        self.q = nn.Linear(dim, dim, bias=use_bias)
        self.k = nn.Linear(dim, dim, bias=use_bias)
        self.v = nn.Linear(dim, dim, bias=use_bias)
        self.edge = nn.Linear(dim_edge or dim, dim, bias=use_bias)
        self.q_fake = self.k_fake = self.edge_fake = self.fake_edge_emb = None
        if full_graph:
            self.q_fake = nn.Linear(dim, dim, bias=use_bias)
            self.k_fake = nn.Linear(dim, dim, bias=use_bias)
            self.edge_fake = nn.Linear(dim, dim, bias=use_bias)
            self.fake_edge_emb = nn.Embedding(1, dim)
        self.out = nn.Linear(dim, dim)
        self.dropout = Dropout(dropout)
        self.norm_attention = LayerNorm(dim) if norm == "layer" else make_norm(norm, dim)
        self.feed_forward = FeedForward(dim, act="relu", dropout=dropout, dropout_out=0.0)
        self.norm_out = LayerNorm(dim) if norm == "layer" else make_norm(norm, dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        new = self.out(self.dropout(self.attend(h, e, batch).flatten(1)))
        x = self._normed(self.norm_attention, h, new, batch)
        mapped, x = self.feed_forward.mapped(x)
        return self._normed(self.norm_out, x, mapped, batch), e, batch

    def _normed(self, norm: nn.Module, old: Tensor, new: Tensor, batch: GraphBatch) -> Tensor:
        """(N, dim) norm of what is new, added to what was there with ``residual``."""
        return add_norm(norm, old, new, batch) if self.residual else add_norm(norm, new, None, batch)

    def tie(self, first: SANLayer) -> None:
        """Shares the feature of pairs without an edge with the first layer."""
        self.fake_edge_emb = first.fake_edge_emb

    def attend(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """(N, heads, d) attention output before the output map."""
        # The last column of v is 1: its weighted sum is the denominator.
        v = self._heads(self.v(h))
        v = torch.cat([v, v.new_ones(*v.shape[:2], 1)], dim=2)
        adj = batch.adjacency()
        q, k, factors = self._on_edges(h, e)
        scores = (gather(adj, q, "target") * gather(adj, k, "source") * factors).sum(2) * q.shape[2] ** -0.5
        weights = scores.clamp(-5.0, 5.0).exp().unsqueeze(2)
        total = sum_at_target(adj, weights * gather(adj, v, "source"))
        if self.fake_edge_emb is not None:
            other = self._over_non_edges(h, v, batch, "clamped_exp")
            total = (total + self.gamma * other) / (1.0 + self.gamma)
        return total[..., :-1] / (total[..., -1:] + 1e-6)

    def _on_edges(self, h: Tensor, e: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys (N, heads, d), and the factors of the edges (E, heads, d)."""
        if e is None:
            raise ValueError(
                f"{type(self).__name__} reads edge features, received none (an edge encoder supplies them)"
            )
        return self._heads(self.q(h)), self._heads(self.k(h)), self._heads(self.edge(e))

    def _over_non_edges(self, h: Tensor, v: Tensor, batch: GraphBatch, weighting: Weighting) -> Tensor:
        """(N, heads, width) weighted sums of v (N, heads, width) over the pairs that are no edges."""
        assert self.q_fake is not None
        assert self.k_fake is not None
        assert self.edge_fake is not None
        assert self.fake_edge_emb is not None
        if not len(h):
            return v * 0
        feature = self._heads(self.edge_fake(self.fake_edge_emb.weight))
        q = self._heads(self.q_fake(h)) * feature
        q = q * q.shape[2] ** -0.5
        k = self._heads(self.k_fake(h))
        return non_edge_attention(q, k, v, batch, weighting)

    def _heads(self, rows: Tensor) -> Tensor:
        return rows.view(rows.shape[0], self.heads, rows.shape[1] // self.heads)

    def extra_repr(self) -> str:
        """Heads and whether pairs without an edge count, in ``print(model)``."""
        return f"heads={self.heads}, full_graph={self.fake_edge_emb is not None}"


@register("SAN2Layer")
class SAN2Layer(SANLayer):
    """SAN's layer with one softmax over the edges and another over the other pairs; see :class:`SANLayer`.

    Equations, per head of width d::

        a_t = softmax over edges s -> t of q_t . (k_s * E e_st) / sqrt(d)
        b_t = softmax over the other s != t of q'_t . (k'_s * E' f) / sqrt(d)
        out = 1 / (1 + gamma) sum_s a_ts v_s + gamma / (1 + gamma) sum_s b_ts v_s

    gamma is learned and starts at 0.5; nothing is clamped. A node without pairs of one kind gets 0 from them.

    Args:
        dim: channels of nodes, divisible by ``heads``.
        heads: number of heads.
        dim_edge: channels of the edge states; None: as ``dim``.
        dropout: as in SANLayer.
        norm: as in SANLayer.
        residual: as in SANLayer.
        full_graph: attend to pairs that are no edges.
        use_bias: projections of the attention have biases.

    Shape:
        h (N, dim), e (E, dim_edge) -> h' (N, dim); edge states pass through.
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dim_edge: FromContext[int | None] = None,
        dropout: FromContext[float] = 0.0,
        norm: FromContext[str] = "batch",
        residual: FromContext[bool] = True,
        full_graph: FromContext[bool] = True,
        use_bias: bool = False,
    ) -> None:
        super().__init__(
            dim,
            heads,
            dim_edge=dim_edge,
            dropout=dropout,
            norm=norm,
            residual=residual,
            full_graph=full_graph,
            use_bias=use_bias,
        )
        # As in GraphGPS it exists where only edges count, too, and gets no gradient there.
        self.gamma = nn.Parameter(torch.tensor(0.5))

    def attend(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """(N, heads, d) attention output before the output map."""
        q, k, factors = self._on_edges(h, e)
        v = self._heads(self.v(h))
        out = edge_attention(batch.adjacency(), q, k, v, factors)
        if self.fake_edge_emb is None:
            return out
        other = self._over_non_edges(h, v, batch, "softmax")
        return (out + self.gamma * other) / (1.0 + self.gamma)


@library_op(lambda q, k, v, *_: v.new_empty(v.shape))
def non_edge_attention(q: Tensor, k: Tensor, v: Tensor, batch: GraphBatch, weighting: Weighting) -> Tensor:
    """(N, H, e) weighted sums over the pairs that are no edges; q, k (N, H, d), v (N, H, e)."""
    ragged, blocks = batch.ragged, []
    weights_of = {"clamped_exp": _clamped_exp, "softmax": _masked_softmax}[weighting]
    buckets = zip(
        batch.derived(non_edges), ragged.to_buckets(q), ragged.to_buckets(k), ragged.to_buckets(v), strict=True
    )
    for mask, q_BLHd, k_BLHd, v_BLHe in buckets:
        weights = weights_of(q_BLHd.transpose(1, 2) @ k_BLHd.permute(0, 2, 3, 1), mask)
        blocks.append((weights @ v_BLHe.transpose(1, 2)).transpose(1, 2))
    return ragged.from_buckets(blocks)


def _clamped_exp(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.clamp(-5.0, 5.0).exp() * mask


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(3) * mask


def non_edges(batch: GraphBatch) -> list[Tensor]:
    """Masks of the ordered pairs of different nodes of a graph that no edge joins.

    Returns:
        One (B, 1, L, L) bool tensor per bucket of ``batch.ragged``, rows are targets; False on padding.
    """
    layout, device = batch.ragged.layout, batch.device
    source, target = batch.edge_index
    column = source - batch.ragged.ptr.index_select(0, batch.ragged.graph_id.index_select(0, target))
    cell_of_target = layout.cell_of_row.index_select(0, target)
    masks = []
    for bucket in layout.buckets:
        graphs, size = len(bucket.graphs), bucket.length
        pairs = graphs * size * size
        row = cell_of_target - bucket.start
        here = (row >= 0) & (row < graphs * size)
        cell = (row * size + column).where(here, pairs)  # edges of other buckets behind all cells
        joined = torch.zeros(pairs + 1, dtype=torch.bool, device=device).index_fill_(0, cell, True)[:pairs]
        mask = ~(joined.view(graphs, 1, size, size) | torch.eye(size, dtype=torch.bool, device=device))
        if bucket.mask is not None:
            mask &= bucket.mask[:, None, :, None] & bucket.mask[:, None, None, :]
        masks.append(mask)
    return masks
