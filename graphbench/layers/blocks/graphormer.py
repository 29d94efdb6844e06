"""The layer of Graphormer (https://arxiv.org/abs/2106.05234)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("GraphormerLayer")
class GraphormerLayer(Block):
    """Graphormer's layer: attention with a bias per pair and a feed-forward network, both pre-norm.

    Equations::

        x  = h + drop(attention(norm(h)))
        h' = x + drop(W_2 drop_mlp(gelu(W_1 norm(x))))

    Norms are per node; the feed-forward network has the same width inside and outside. The bias is
    ``state.pair_bias``, computed by the encoder ``GraphormerBias``; without it attention is unbiased.

    Args:
        dim: channels of nodes.
        heads: attention heads, the number of columns of the bias.
        dropout: probability of dropping an entry after attention and after the feed-forward network.
        attn_dropout: probability of dropping an attention weight.
        mlp_dropout: probability of dropping an entry inside the feed-forward network.

    Shape:
        h (N, dim) -> (N, dim); edge states pass through.

    Differences from the paper: none known; dropout as in GraphGPS.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        attn_dropout: FromContext[float] = 0.0,
        mlp_dropout: FromContext[float] = 0.0,
    ) -> None:
        super().__init__()
        self.norm_attention = LayerNorm(dim)
        self.attention = BiasedTransformer(dim, heads, dropout=attn_dropout)
        self.dropout = Dropout(dropout)
        self.norm_ffn = LayerNorm(dim)
        self.feed_forward = FeedForward(dim, act="gelu", dropout=mlp_dropout, dropout_out=dropout, expansion=1)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        x = h + self.dropout(self.attention(self.norm_attention(h), e, batch))
        return x + self.feed_forward(self.norm_ffn(x)), e, batch
