"""The post-norm layer of very deep Transformers: DeepNorm (https://arxiv.org/abs/2203.00555)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("DeepNorm")
class DeepNorm(Block):
    r"""DeepNorm block: biased attention and a feed-forward network, with residuals that weigh more in deeper models.

    Equations, L layers, a = (2 L)^(1/4)::

        x  = LN(a h + drop(attention(h)))
        h' = LN(a x + drop(W_2 drop_mlp(gelu(W_1 x))))

    Values, the map behind attention and both maps of the feed-forward network begin (8 L)^(-1/4) times as large as
    usual. The bias is ``state.pair_bias``.

    Args:
        dim: channels of nodes.
        heads: attention heads, the number of columns of the bias.
        depth: L.
        dropout: probability of dropping an entry after attention and after the feed-forward network.
        attn_dropout: probability of dropping an attention weight.
        mlp_dropout: probability of dropping an entry inside the feed-forward network.
        ffn_dim: width inside it; None: ``dim``.

    Shape:
        h (N, dim) -> (N, dim); edge states pass through.

    Differences from the paper: none known; usual are maps of attention by Glorot's rule, others as torch has them.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        depth: int = 12,
        dropout: FromContext[float] = 0.0,
        attn_dropout: FromContext[float] = 0.0,
        mlp_dropout: FromContext[float] = 0.0,
        ffn_dim: int | None = None,
    ) -> None:
        super().__init__()
        check_at_least(1, depth=depth)
        self.scale = (2 * depth) ** 0.25
        self.attention = BiasedTransformer(dim, heads, dropout=attn_dropout)
        self.dropout = Dropout(dropout)
        self.norm_attention = LayerNorm(dim)
        self.feed_forward = FeedForward(
            dim, act="gelu", dropout=mlp_dropout, dropout_out=dropout, width=dim if ffn_dim is None else ffn_dim
        )
        self.norm_ffn = LayerNorm(dim)
        nn.init.xavier_uniform_(self.attention.out.weight)
        smaller = (8 * depth) ** -0.25
        with torch.no_grad():
            self.attention.qkv.weight[2 * dim :].mul_(smaller)
            for linear in (self.attention.out, self.feed_forward.lin_in, self.feed_forward.lin_out):
                linear.weight.mul_(smaller)
                linear.bias.mul_(smaller)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        x = self.norm_attention(self.scale * h + self.dropout(self.attention(h, e, batch)))
        return self.norm_ffn(self.scale * x + self.feed_forward(x)), e, batch
