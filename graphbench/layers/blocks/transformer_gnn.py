"""The layer of a survey of graph transformers, https://arxiv.org/abs/2202.08455: message passing is an option of it."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from torch import Tensor

from graphbench import registry
from graphbench.contract import TiesParameters
from graphbench.errors import check_one_of
from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.layers.contract import Block, LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm
from graphbench.layers.normed import add_norm, feed_forward_norm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("TransformerGNN")
class TransformerGNN(Block, TiesParameters):
    """Post-norm Transformer layer with a bias per pair, and message passing before, beside or after attention.

    Equations, g(h) = h + drop_g(relu(GNN(h)))::

        h  = g(h)                     position before, in the first layer only
        x  = LN(h + drop(MHA(h)))
        x  = g(x)                     position after ("alter")
        x  = x + g(h)                 position beside ("parallel")
        h' = LN(x + drop(W_2 drop(gelu(W_1 x))))

    MHA is :class:`~graphbench.layers.attention.biased_transformer.BiasedTransformer`: the bias is
    ``state.pair_bias``, as ``GraphormerBias``, ``ProximityBias`` or ``HopMask`` compute it.

    Args:
        dim: channels of nodes.
        heads: attention heads, the number of columns of the bias.
        dropout: drop.
        attn_dropout: probability of dropping an attention weight.
        ffn_dim: width inside the feed-forward network; None: ``dim``.
        gnn: a local layer by its registered name, which gets no edge states; None: no message passing.
        gnn_heads: heads of the local layer, where it has any.
        gnn_dropout: drop_g.
        position: place of the message passing, ``before``, ``beside`` or ``after`` attention.
        has_token: the first node of every graph is a token, which g leaves as it is.

    Shape:
        h (N, dim), e -> h' (N, dim), e, batch.

    Differences from the released code: norms add 1e-5 to the variance, there 1e-6.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        attn_dropout: FromContext[float] = 0.0,
        ffn_dim: int | None = None,
        gnn: str | None = None,
        gnn_heads: int = 4,
        gnn_dropout: float = 0.5,
        position: Literal["before", "after", "beside"] = "before",
        has_token: bool = False,
    ) -> None:
        super().__init__()
        check_one_of(("before", "after", "beside"), position=position)
        self.attention = BiasedTransformer(dim, heads, dropout=attn_dropout)
        self.dropout = Dropout(dropout)
        self.norm_attention, self.norm_ffn = LayerNorm(dim), LayerNorm(dim)
        self.feed_forward = FeedForward(dim, act="gelu", dropout=dropout, width=dim if ffn_dim is None else ffn_dim)
        self.local = None if gnn is None else _local(gnn, dim, gnn_heads)
        self.local_dropout = Dropout(gnn_dropout)
        self.position, self.has_token = position, has_token

    def tie(self, first: Self) -> None:
        """Removes message passing before attention, which only the first layer has."""
        if self.position == "before":
            self.local = None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        if self.position == "before":
            h = self._passed(h, batch)
        x = add_norm(self.norm_attention, h, self.attention(h, e, batch), batch, dropout=self.dropout)
        if self.position == "after":
            x = self._passed(x, batch)
        elif self.position == "beside" and self.local is not None:
            x = x + self._passed(h, batch)
        return feed_forward_norm(self.norm_ffn, self.feed_forward, x, batch), e, batch

    def _passed(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, dim) g(h), h itself where there is no GNN."""
        if self.local is None:
            return h
        new, _ = self.local(h, None, batch)
        new = self.local_dropout(new.relu())
        if self.has_token:
            new = new.index_fill(0, batch.ragged.ptr[:-1], 0.0)
        return h + new


def _local(name: str, dim: int, heads: int) -> LocalLayer:
    layer = registry.lookup(registry.LOCAL_LAYERS, name)
    known = registry.parameters(layer)
    arguments = {"dim_in": dim, "dim_out": dim, "heads": heads}
    return registry.construct(layer, {key: value for key, value in arguments.items() if key in known})
