"""The layer of the Graph Transformer of Dwivedi and Bresson (https://arxiv.org/abs/2012.09699)."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_multiple, check_one_of
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import BatchNorm, LayerNorm
from graphbench.layers.normed import add_norm, feed_forward_norm
from graphbench.ops.edge_attention import edge_attention
from graphbench.ops.propagate import gather
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.capacity import Level


@register("GraphTransformerLayer")
class GraphTransformerLayer(Block):
    """Attention along the edges, with scores scaled by edge states, and a second stream that updates edge states.

    Equations, per head of width d_k, s the sources of edges into t, c channels of the head::

        u_st = (W_Q h_t) * (W_K h_s) * (W_E e_st) / sqrt(d_k)                              channel by channel
        a_st = exp(clamp(sum_c u_st, -5, 5)) / (1e-6 + the same, summed over s)
        x = norm(h + W_O drop(sum_s a_st W_V h_s)),     h' = norm(x + FFN(x))
        y = norm(e + W_P drop(u)),                      e' = norm(y + FFN(y))

    Without edge states W_E e is 1, and y does not exist. FFN = W_2 drop(relu(W_1 .)), of twice the width inside.

    Args:
        dim: channels of nodes, divisible by ``heads``.
        heads: attention heads.
        dim_edge: channels of the edge states, which must be ``dim``.
        use_edge_attr: whether edge states come; ``edge_states`` needs them.
        dropout: probability of dropping an entry.
        edge_states: whether there are edge states; without, their parameters do not exist.
        norm: ``batch`` or ``layer`` (per row).

    Shape:
        h (N, dim), e (E, dim) or None -> the same, batch.

    Differences from the paper: 1e-6 in the denominator is also there without edge states, so that a node without edges
    gets 0; the code divides by 0 there.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dim_edge: FromContext[int] = 0,
        use_edge_attr: FromContext[bool] = True,
        dropout: FromContext[float] = 0.0,
        edge_states: bool = True,
        norm: Literal["batch", "layer"] = "batch",
    ) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        if edge_states and dim_edge != dim:
            raise ArgumentError(
                ("dim_edge", "edge_states"),
                f"nodes and edges must have the same width, received dim={dim} and dim_edge={dim_edge}",
            )
        if edge_states and not use_edge_attr:
            raise ArgumentError(
                "edge_states", "edge states are read, and nothing supplies them: set edge_states to false"
            )
        check_one_of(("batch", "layer"), norm=norm)
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.edge_lin = nn.Linear(dim, dim, bias=False) if edge_states else None
        self.nodes = _Finish(dim, dropout, norm)
        self.edges = _Finish(dim, dropout, norm) if edge_states else None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states; the batch as it came."""
        adj = batch.adjacency()
        q, k, v = self.qkv(h).unflatten(1, (3, self.heads, -1)).unbind(1)
        factor = None
        if self.edge_lin is not None:
            if e is None:
                raise ValueError("GraphTransformerLayer needs edge states, received none (or set edge_states to false)")
            factor = self.edge_lin(e).unflatten(1, (self.heads, -1))
        mixed = edge_attention(adj, q, k, v, factor, clamp=5.0, eps=1e-6)
        if factor is not None and self.edges is not None and e is not None:
            score = gather(adj, q, "target") * gather(adj, k, "source") * factor * q.shape[2] ** -0.5
            e = self.edges(e, score.flatten(1), batch, "edge")
        return self.nodes(h, mixed.flatten(1), batch, "node"), e, batch


class _Finish(nn.Module):
    """Output map, residual, norm, feed-forward network, residual, norm; for nodes and for edges."""

    def __init__(self, dim: int, dropout: float, norm: str) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.out = nn.Linear(dim, dim)
        self.norm_attention = BatchNorm(dim) if norm == "batch" else LayerNorm(dim)
        self.feed_forward = FeedForward(dim, dropout=dropout, dropout_out=0.0)
        self.norm_ffn = BatchNorm(dim) if norm == "batch" else LayerNorm(dim)

    def forward(self, old: Tensor, new: Tensor, batch: GraphBatch, level: Level) -> Tensor:
        """(R, dim) from the states before, and what attention gives."""
        x = add_norm(self.norm_attention, old, self.out(self.dropout(new)), batch, level=level)
        return feed_forward_norm(self.norm_ffn, self.feed_forward, x, batch, level=level)
