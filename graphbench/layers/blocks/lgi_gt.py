"""The layer of LGI-GT: a convolution, then a Transformer layer that reads its result.

Yin and Zhong, LGI-GT: Graph Transformers with Local and Global Operators Interleaving, IJCAI 2023,
https://www.ijcai.org/proceedings/2023/501.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.local.ogb import OGBGCN
from graphbench.layers.norm import BatchNorm
from graphbench.layers.normed import Normed, add_norm, normed
from graphbench.ops.propagate import gather, relu_sum, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("LGIGTLayer")
class LGIGTLayer(Block):
    """Interleaved layer: a local and a global operator one after the other, each with a residual.

    Equations::

        y = BN(h + conv(h)),   a = BN(y + drop(MHA(y))),   h' = y + BN(a + drop(W_2 drop(relu(W_1 a))))
        GIN  conv(h)_t = V_2 relu(V_1 (h_t + sum over edges s -> t of relu(h_s + W e_st)))
        GCN  conv(h) as :class:`~graphbench.layers.local.ogb.OGBGCN`, of the edge states W e_st

    V_1, W_1: to twice the width.

    Args:
        dim: channels of nodes, divisible by ``heads``.
        heads: attention heads.
        dim_edge: channels of the edge states; 0: there are none. Else W counts, and gets no gradient where none come.
        dropout: probability of dropping an entry after attention, and inside and after the feed-forward network.
        attn_dropout: probability of dropping an attention weight.
        conv: ``GIN`` (published for molecules) or ``GCN`` (for stochastic block models).

    Shape:
        h (N, dim), e (E, dim_edge) or None -> h' (N, dim); edge states and batch as they came. Without e its term is 0.

    Differences from the paper: its third convolution, attention along edges with edge states (for ogbg-molpcba), and
    the class token that reads a graph there are not here.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dim_edge: FromContext[int] = 0,
        dropout: FromContext[float] = 0.0,
        attn_dropout: FromContext[float] = 0.0,
        conv: Literal["GIN", "GCN"] = "GIN",
    ) -> None:
        super().__init__()
        check_one_of(("GIN", "GCN"), conv=conv)
        self.lin_edge = nn.Linear(dim_edge, dim) if dim_edge else None
        gin = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.conv: nn.Module = OGBGCN(dim, dim) if conv == "GCN" else gin
        self.norm_conv = BatchNorm(dim)
        self.attention = Transformer(dim, heads, dropout=attn_dropout)
        self.dropout = Dropout(dropout)
        self.norm_attention = BatchNorm(dim)
        self.feed_forward = FeedForward(dim, dropout=dropout)
        self.norm_ffn = BatchNorm(dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        y = add_norm(self.norm_conv, h, self._convolved(h, e, batch), batch)
        a = add_norm(self.norm_attention, y, self.attention(y, None, batch), batch, dropout=self.dropout)
        mapped, a = self.feed_forward.mapped(a)
        out = Normed(self.norm_ffn, a, added=mapped, added_dropout=self.feed_forward.dropout_out, residual=y)
        return normed([out], batch)[0], e, batch

    def _convolved(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        edges = None if e is None or self.lin_edge is None else self.lin_edge(e)
        if isinstance(self.conv, OGBGCN):
            return self.conv(h, edges, batch)[0]
        adj = batch.adjacency()
        if edges is None:
            summed = h + sum_at_target(adj, gather(adj, h, "source").relu())
        else:
            neighbours, _ = relu_sum(adj, h, edges)
            summed = h + neighbours
        return self.conv(summed)
