"""Relative positional encoding on graphs: GRPE (https://arxiv.org/abs/2201.12787), with focal heads GRPE-FFGT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from graphbench.layers.attention.ffgt.layer import CompoundAttention, transforms_of, width_per_head
from graphbench.layers.attention.ffgt.relations import EdgeTypes, RelationTables
from graphbench.registry import FromContext, register


@register("GRPE")
class GRPE(CompoundAttention):
    """Hops and edge types of a pair have vectors that queries and keys read and that are added to values.

    Equations::

        s_ij = (q_i . k_j + q_i . (Qh[d_ij] + Qe[t_ij]) + k_i . (Kh[d_ij] + Ke[t_ij])) / sqrt(d_k)
        head = sum_j softmax_j(s_ij) (v_j + Vh[d_ij] + Ve[t_ij]),   out = W_O [head_1 | .. | head_H]

    d_ij: hops up to ``max_hop``, then a row for the graph token and one for pairs without a path. t_ij: type of the
    edge from i to j, or a row for the graph token, for i = j, for no edge. The tables serve all layers.

    With ``focal_heads`` the last heads see only the nodes within ``focal_length`` hops: GRPE-FFGT
    (https://arxiv.org/abs/2311.04653).

    Args:
        dim: channels of input and output.
        heads: H.
        max_hop: hops that are told apart.
        focal_heads: how many of the heads, the last ones, are focal; 0: GRPE as published.
        focal_length: hops they see; 0: themselves only. The graph token sees all and is seen by all.
        attn_dim: channels per head; 0: ``dim / heads``.
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
        It writes k_j in the key term; its released code, and this, have k_i. In its code a node has the row of no
        edge with itself (``released: true``).
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        max_hop: int = 5,
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
        dropout: FromContext[float] = 0.0,
    ) -> None:
        width = attn_dim or width_per_head(dim, heads)
        types = EdgeTypes(num_edge_types, edge_radix, edge_offset, "grpe" if released else "")
        super().__init__(
            dim,
            heads,
            RelationTables(heads, width, types, max_hop=max_hop, values=True),
            focal_heads=focal_heads,
            focal_length=focal_length,
            attn_dim=width,
            tables_per_layer=tables_per_layer,
            unreachable=unreachable,
            dropout=dropout,
        )

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The distances that the tables and the heads read."""
        return transforms_of(arguments, "GRPE")
