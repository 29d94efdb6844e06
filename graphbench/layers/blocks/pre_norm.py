"""Pre-norm layers of FFGT (https://arxiv.org/abs/2311.04653) and GRPE (https://arxiv.org/abs/2201.12787)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from graphbench.layers.attention.ffgt.grpe import GRPE
from graphbench.layers.attention.ffgt.layer import FFGT, CompoundAttention, transforms_of
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class PreNormLayer(Block):
    """An attention and a feed-forward part, each after its norm; the layers below say which attention."""

    def __init__(self, dim: int, attention: CompoundAttention, ffn_dim: int, dropout: float) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(dim)
        self.attention = attention
        self.dropout = Dropout(dropout)
        self.norm_ffn = nn.LayerNorm(dim)
        self.feed_forward = FeedForward(dim, act="gelu", dropout_out=dropout, width=ffn_dim or dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states."""
        x = h + self.dropout(self.attention(self.norm_attention(h), e, batch))
        return x + self.feed_forward(self.norm_ffn(x)), e, batch


@register("FFGTLayer")
class FFGTLayer(PreNormLayer):
    """Compound attention and a feed-forward part, each after its norm: the layer of Vanilla and Vanilla-FFGT.

    Equations::

        x  = h + drop(FFGT(norm(h)))
        h' = x + drop(W_2 gelu(W_1 norm(x)))

    Norms are per node.

    Args:
        dim: channels of nodes.
        heads: H, of which the last ``focal_heads`` are focal.
        ffn_dim: width inside the feed-forward part; 0: ``dim``.
        dropout: probability of dropping an entry after attention and after the feed-forward part, not inside it.
        attn_dropout: the same for attention weights.
        focal_heads: as all that follow, see :class:`~graphbench.layers.attention.ffgt.layer.FFGT`; 0 gives Vanilla.
        focal_length: hops that focal heads see.
        attn_dim: channels per head; 0: ``dim / heads``.
        edge_bias: whether edge types bias the scores.
        num_edge_types: types of edges.
        edge_radix: how several columns of edge features become a type.
        edge_offset: added to every type.
        tables_per_layer: tables for every layer instead of one for all.
        unreachable: ``mask`` or ``full``.
        neighbors: ``pairs`` or ``lists``.
        released: edge tables as in the released code.

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
        focal_heads: int = 0,
        focal_length: int = 1,
        attn_dim: int = 0,
        edge_bias: bool = True,
        num_edge_types: int = 1,
        edge_radix: int = 0,
        edge_offset: int = 0,
        tables_per_layer: bool = False,
        unreachable: Literal["mask", "full"] = "mask",
        neighbors: Literal["pairs", "lists"] = "pairs",
        released: bool = False,
    ) -> None:
        attention = FFGT(
            dim,
            heads,
            focal_heads=focal_heads,
            focal_length=focal_length,
            attn_dim=attn_dim,
            edge_bias=edge_bias,
            num_edge_types=num_edge_types,
            edge_radix=edge_radix,
            edge_offset=edge_offset,
            tables_per_layer=tables_per_layer,
            unreachable=unreachable,
            neighbors=neighbors,
            released=released,
            dropout=attn_dropout,
        )
        super().__init__(dim, attention, ffn_dim, dropout)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The distances that the attention reads."""
        return transforms_of(arguments, "FFGTLayer")


@register("GRPELayer")
class GRPELayer(PreNormLayer):
    """GRPE's attention and a feed-forward part, each after its norm: the layer of GRPE and GRPE-FFGT.

    Equations::

        x  = h + drop(GRPE(norm(h)))
        h' = x + drop(W_2 gelu(W_1 norm(x)))

    Norms are per node.

    Args:
        dim: channels of nodes.
        heads: H, of which the last ``focal_heads`` are focal.
        max_hop: hops that are told apart.
        ffn_dim: width inside the feed-forward part; 0: ``dim``.
        dropout: probability of dropping an entry after attention and after the feed-forward part, not inside it.
        attn_dropout: the same for attention weights.
        focal_heads: as all that follow, see :class:`~graphbench.layers.attention.ffgt.grpe.GRPE`; 0 gives GRPE.
        focal_length: hops that focal heads see.
        attn_dim: channels per head; 0: ``dim / heads``.
        num_edge_types: types of edges.
        edge_radix: how several columns of edge features become a type.
        edge_offset: added to every type.
        tables_per_layer: tables for every layer instead of one for all.
        unreachable: ``mask`` or ``full``.
        neighbors: ``pairs`` or ``lists``.
        released: edge tables as in the released code.

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
        focal_heads: int = 0,
        focal_length: int = 1,
        attn_dim: int = 0,
        num_edge_types: int = 1,
        edge_radix: int = 0,
        edge_offset: int = 0,
        tables_per_layer: bool = False,
        unreachable: Literal["mask", "full"] = "mask",
        neighbors: Literal["pairs", "lists"] = "pairs",
        released: bool = False,
    ) -> None:
        attention = GRPE(
            dim,
            heads,
            max_hop=max_hop,
            focal_heads=focal_heads,
            focal_length=focal_length,
            attn_dim=attn_dim,
            num_edge_types=num_edge_types,
            edge_radix=edge_radix,
            edge_offset=edge_offset,
            tables_per_layer=tables_per_layer,
            unreachable=unreachable,
            neighbors=neighbors,
            released=released,
            dropout=attn_dropout,
        )
        super().__init__(dim, attention, ffn_dim, dropout)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The distances that the attention reads."""
        return transforms_of(arguments, "GRPELayer")
