"""Focal and full-range attention side by side: FFGT (https://arxiv.org/abs/2311.04653)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights, TiesParameters
from graphbench.errors import ArgumentError
from graphbench.layers.attention.ffgt.relations import EdgeTypes, RelationTables, distances
from graphbench.layers.contract import GlobalAttention
from graphbench.ops.focal_attention import Relation, focal_attention
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class CompoundAttention(GlobalAttention, HasAttentionWeights, TiesParameters):
    """What FFGT and GRPE share: heads of two reaches over tables of relations."""

    def __init__(
        self,
        dim: int,
        heads: int,
        tables: RelationTables | None,
        *,
        focal_heads: int,
        focal_length: int,
        attn_dim: int,
        tables_per_layer: bool,
        unreachable: Literal["mask", "full"],
        dropout: float,
    ) -> None:
        super().__init__()
        if not 0 <= focal_heads <= heads or focal_length < 0:
            raise ArgumentError(
                ("focal_heads", "heads", "focal_length"),
                f"focal_heads must lie in 0 .. {heads} (heads) and focal_length be 0 or more, received "
                f"{focal_heads} and {focal_length}",
            )
        if unreachable not in ("mask", "full"):
            raise ArgumentError("unreachable", f"unreachable must be mask or full, received {unreachable!r}")
        self.heads, self.dropout, self.unreachable = heads, dropout, unreachable
        self.reach = (None,) * (heads - focal_heads) + (focal_length,) * focal_heads
        self.width, self.tables_per_layer = attn_dim, tables_per_layer
        self.qkv = nn.Linear(dim, 3 * heads * attn_dim)
        self.out = nn.Linear(heads * attn_dim, dim)
        self.tables = tables
        for start in range(3):
            nn.init.xavier_uniform_(self.qkv.weight.data[start * heads * attn_dim : (start + 1) * heads * attn_dim])
        nn.init.xavier_uniform_(self.out.weight)
        for linear in (self.qkv, self.out):
            nn.init.zeros_(linear.bias)

    @property
    def reader(self) -> str:
        """Name for messages."""
        return type(self).__name__

    def tie(self, first: Self) -> None:
        """Shares the tables of the first layer, unless every layer has its own."""
        if not self.tables_per_layer:
            self.tables = first.tables

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """No residual, no norm."""
        q, k, v = self._projected(h)
        mixed = self._attend(q, k, v, batch, self._relations(batch), self.dropout if self.training else 0.0)
        out: Tensor = self.out(mixed.flatten(1))
        return out

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Softmax weights without dropout, (heads, n, n) per graph; row i is what node i attends to."""
        q, k, _ = self._projected(h)
        place = torch.arange(h.shape[0], device=h.device) - batch.ragged.ptr[batch.ragged.graph_id]
        one_hot = torch.nn.functional.one_hot(place, batch.ragged.max_size).to(h.dtype)
        relations = [Relation(each.index, each.query, each.key) for each in self._relations(batch)]
        weights = self._attend(q, k, one_hot[:, None].expand(-1, self.heads, -1), batch, relations, 0.0)
        return [each[:, :, : len(each)].transpose(0, 1) for each in weights.split(batch.ragged.sizes)]

    def _projected(self, h: Tensor) -> tuple[Tensor, ...]:
        return self.qkv(h).view(h.shape[0], 3, self.heads, self.width).unbind(1)

    def _relations(self, batch: GraphBatch) -> list[Relation]:
        return [] if self.tables is None else [self.tables(batch, self.reader)]

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, batch: GraphBatch, relations: list[Relation], dropout: float
    ) -> Tensor:
        return focal_attention(
            q,
            k,
            v,
            batch.ragged,
            distances(batch, self.reader),
            self.reach,
            relations=relations,
            unreachable=self.unreachable,
            dropout_p=dropout,
        )

    def extra_repr(self) -> str:
        """Heads, reach and dropout, in ``print(model)``."""
        return f"heads={self.heads}, reach={self.reach}, dropout={self.dropout}"


def transforms_of(own: Mapping[str, Any], heads_read: str) -> dict[str, dict[str, Any]]:
    """Distances of all pairs, or lists of the nodes within ``focal_length`` hops, for the arguments of a layer."""
    if own["neighbors"] == "pairs":
        return {"ShortestPaths": {}}
    if own["neighbors"] == "lists":
        return {"HopNeighbors": {"cutoff": max(own["focal_length"], 1)}}
    raise ArgumentError("neighbors", f"{heads_read}: neighbors must be pairs or lists, received {own['neighbors']!r}")


@register("FFGT")
class FFGT(CompoundAttention):
    """Some heads see the whole graph, the others the nodes within a few hops; edge types bias the scores.

    Equations::

        head_c = softmax_j(s_ij) V over all j for c < heads - focal_heads, over j with d(i, j) <= focal_length else
        s_ij = (q_i . k_j + q_i . Q[t_ij] + k_i . K[t_ij]) / sqrt(d_k)
        out = W_O [head_1 | .. | head_H],   (Q, K, V) = W h + b

    t_ij: type of the edge from i to j, or a row for the graph token, for i = j, for no edge; one pair of tables serves
    all layers. Paper: heads of both reaches are concatenated and mapped together; ``focal_heads: 0`` is the Vanilla
    transformer it compares with.

    Args:
        dim: channels of input and output.
        heads: H.
        focal_heads: how many of the heads, the last ones, are focal.
        focal_length: hops they see; 0: themselves only. The graph token sees all and is seen by all.
        attn_dim: channels per head; 0: ``dim / heads``.
        edge_bias: whether edge types bias the scores.
        num_edge_types: types of edges; 1: edge features are not read.
        edge_radix: 0: the type is the first column of the edge features; r: the columns are digits to base r.
        edge_offset: added to every type.
        tables_per_layer: tables for every layer instead of one for all.
        unreachable: what focal heads do with pairs without a path: ``mask``, or ``full`` (they see them).
        neighbors: ``pairs``: distances of all pairs; ``lists``: neighbour lists, for large graphs: then all heads
            must be focal, and time and memory are those of the lists.
        released: edge tables as in the released code, see :func:`graphbench.layers.attention.ffgt.relations.edge_rows`.
        dropout: probability of dropping an attention weight.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read, types come from ``batch.edge_attr``.

    Differences from the paper:
        The gate C of equation 6 is left out; neither experiments nor released code have one. The released code lets
        focal heads see pairs without a path (``unreachable: full``) and mixes up rows of its edge tables
        (``released: true``; with ``edge_offset: 2`` triple bonds of ZINC get the graph token's row). Its key term has
        the key of the row node, as here; the paper does not say.
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
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
        dropout: FromContext[float] = 0.0,
    ) -> None:
        width, types = (
            attn_dim or width_per_head(dim, heads),
            EdgeTypes(num_edge_types, edge_radix, edge_offset, "vanilla" if released else ""),
        )
        super().__init__(
            dim,
            heads,
            RelationTables(heads, width, types, max_hop=None, values=False) if edge_bias else None,
            focal_heads=focal_heads,
            focal_length=focal_length,
            attn_dim=width,
            tables_per_layer=tables_per_layer,
            unreachable=unreachable,
            dropout=dropout,
        )

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The distances that the heads and the edge bias read."""
        return transforms_of(arguments, "FFGT")


def width_per_head(dim: int, heads: int) -> int:
    """Channels of a head where heads share them."""
    if dim % heads:
        raise ArgumentError(
            ("dim", "heads"), f"dim must be a multiple of heads where attn_dim is 0, received dim={dim}, heads={heads}"
        )
    return dim // heads
