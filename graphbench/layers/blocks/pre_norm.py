"""Pre-norm layers of FFGT (https://arxiv.org/abs/2311.04653) and GRPE (https://arxiv.org/abs/2201.12787)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from graphbench.layers.attention.ffgt.grpe import GRPE
from graphbench.layers.attention.ffgt.layer import FFGT, CompoundAttention
from graphbench.layers.attention.ffgt.settings import FocalSettings, distance_transforms
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class PreNormLayer(Block):
    """Attention and a feed-forward network, both pre-norm: the common base of :class:`FFGTLayer`, :class:`GRPELayer`.

    Equations, with norms per node::

        x  = h + drop(attention(norm(h)))
        h' = x + drop(W_2 gelu(W_1 norm(x)))

    Args:
        dim: channels of nodes.
        attention: FFGT or GRPE.
        ffn_dim: width inside the feed-forward network; 0: ``dim``.
        dropout: probability of dropping an entry after attention and after the feed-forward network, not inside it.

    Shape:
        h (N, dim) -> (N, dim); edge states pass through.
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: int, attention: CompoundAttention, ffn_dim: int, dropout: float) -> None:
        super().__init__()
        self.norm_attention = LayerNorm(dim)
        self.attention = attention
        self.dropout = Dropout(dropout)
        self.norm_ffn = LayerNorm(dim)
        self.feed_forward = FeedForward(dim, act="gelu", dropout_out=dropout, width=ffn_dim or dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The distances that the attention reads."""
        return distance_transforms(arguments, cls.__name__)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        x = h + self.dropout(self.attention(self.norm_attention(h), e, batch))
        return x + self.feed_forward(self.norm_ffn(x)), e, batch


@register("FFGTLayer")
class FFGTLayer(PreNormLayer):
    """Compound attention and a feed-forward network, both pre-norm: the layer of Vanilla and Vanilla-FFGT.

    Args:
        dim: channels of nodes.
        heads: H, of which the last ``focal_heads`` are focal.
        ffn_dim: as in :class:`PreNormLayer`.
        dropout: as in :class:`PreNormLayer`.
        attn_dropout: probability of dropping an attention weight.
        edge_bias: whether edge types bias the scores.
        focal: keys of their own, see :class:`~graphbench.layers.attention.ffgt.settings.FocalSettings`;
            ``focal_heads: 0`` gives Vanilla.

    Shape:
        h (N, dim) -> (N, dim); edge states pass through.

    Differences from the paper: those of the attention.
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        ffn_dim: int = 0,
        dropout: FromContext[float] = 0.0,
        attn_dropout: FromContext[float] = 0.0,
        edge_bias: bool = True,
        focal: FocalSettings = FocalSettings(),
    ) -> None:
        attention = FFGT(dim, heads, focal=focal, edge_bias=edge_bias, dropout=attn_dropout)
        super().__init__(dim, attention, ffn_dim, dropout)


@register("GRPELayer")
class GRPELayer(PreNormLayer):
    """GRPE's attention (https://arxiv.org/abs/2201.12787) and a feed-forward network, both pre-norm.

    The layer of GRPE and GRPE-FFGT.

    Args:
        dim: channels of nodes.
        heads: H, of which the last ``focal_heads`` are focal.
        max_hop: hops that are told apart.
        ffn_dim: as in :class:`PreNormLayer`.
        dropout: as in :class:`PreNormLayer`.
        attn_dropout: probability of dropping an attention weight.
        focal: keys of their own, see :class:`~graphbench.layers.attention.ffgt.settings.FocalSettings`;
            ``focal_heads: 0`` gives GRPE.

    Shape:
        h (N, dim) -> (N, dim); edge states pass through.

    Differences from the paper: those of the attention.
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        max_hop: int = 5,
        ffn_dim: int = 0,
        dropout: FromContext[float] = 0.0,
        attn_dropout: FromContext[float] = 0.0,
        focal: FocalSettings = FocalSettings(),
    ) -> None:
        attention = GRPE(dim, heads, max_hop=max_hop, focal=focal, dropout=attn_dropout)
        super().__init__(dim, attention, ffn_dim, dropout)
