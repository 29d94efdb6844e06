"""The encoder layer of the original Transformer (https://arxiv.org/abs/1706.03762), as torch builds it."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm
from graphbench.layers.normed import add_norm, feed_forward_norm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("TransformerEncoder")
class TransformerEncoder(Block):
    """Softmax attention within every graph and a feed-forward network, norms per node after or before each.

    Equations::

        norm_first = false:  x = LN(h + drop(MHA(h)));       h' = LN(x + FFN(x))
        norm_first = true:   x = h + drop(MHA(LN(h)));       h' = x + FFN(LN(x))
        FFN(x) = drop(W_2 drop(act(W_1 x)))

    Args:
        dim: channels of nodes.
        heads: attention heads.
        dropout: probability of dropping an entry after attention, and inside and after the feed-forward network.
        attn_dropout: probability of dropping an attention weight.
        ffn_dim: width inside the feed-forward network; None: four times ``dim``.
        ffn_act: activation of the feed-forward network.
        ffn_dropout: dropout inside it; None: as ``dropout``.
        norm_first: norms before instead of after.

    Shape:
        h (N, dim) -> (N, dim); edge states pass through.

    Differences from the paper: none; torch's ``TransformerEncoderLayer``.
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
        ffn_act: str = "relu",
        ffn_dropout: float | None = None,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.attention = Transformer(dim, heads, dropout=attn_dropout)
        self.dropout = Dropout(dropout)
        self.norm_attention = LayerNorm(dim)
        self.feed_forward = FeedForward(
            dim,
            act=ffn_act,
            dropout=dropout if ffn_dropout is None else ffn_dropout,
            dropout_out=dropout,
            width=4 * dim if ffn_dim is None else ffn_dim,
        )
        self.norm_ffn = LayerNorm(dim)
        self.norm_first = norm_first

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        if self.norm_first:
            h = h + self.dropout(self.attention(self.norm_attention(h), e, batch))
            return h + self.feed_forward(self.norm_ffn(h)), e, batch
        h = add_norm(self.norm_attention, h, self.attention(h, e, batch), batch, dropout=self.dropout)
        return feed_forward_norm(self.norm_ffn, self.feed_forward, h, batch), e, batch
