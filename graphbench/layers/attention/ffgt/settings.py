"""Settings that FFGT, GRPE and their pre-norm layers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphbench.errors import ArgumentError, check_one_of
from graphbench.layers.attention.ffgt.relations import EdgeTypes, Released


@dataclass(frozen=True)
class FocalSettings:
    """Focal heads, their distances and the edge types; every field is a key of the layers that take it.

    Attributes:
        focal_heads: number of focal heads, the last ones of a layer; the others see the whole graph.
        focal_length: hops that focal heads see; 0: themselves only. The graph token sees all and is seen by all.
        attn_dim: channels per head; 0: ``dim / heads``.
        num_edge_types: the last type of edges, of 0 .. ``num_edge_types``; 1: edge features are not read.
        edge_radix: 0: the type is the first column of the edge features; r: the columns are digits to base r.
        edge_offset: number added to every type.
        tables_per_layer: tables for every layer instead of one for all.
        unreachable: pairs without a path: ``mask`` hides them from focal heads, ``full`` shows them.
        neighbors: ``pairs``: distances of all pairs; ``lists``: neighbour lists, for large graphs: then all heads
            must be focal, and time and memory are those of the lists.
        gate: attention weights are multiplied by C of equation 6 after the softmax, exp of a learned number by edge
            type (GRPE: and hops) and head. Needs the tables of edge types.
        released: edge tables as in the released code, see :func:`graphbench.layers.attention.ffgt.relations.edge_rows`.
    """

    focal_heads: int = 0
    focal_length: int = 1
    attn_dim: int = 0
    num_edge_types: int = 1
    edge_radix: int = 0
    edge_offset: int = 0
    tables_per_layer: bool = False
    unreachable: Literal["mask", "full"] = "mask"
    neighbors: Literal["pairs", "lists"] = "pairs"
    gate: bool = False
    released: bool = False

    def check(self, heads: int) -> None:
        """Refuses settings that do not fit a layer of ``heads`` heads.

        Raises:
            ArgumentError: naming what was received and what is allowed.
        """
        if not 0 <= self.focal_heads <= heads or self.focal_length < 0:
            raise ArgumentError(
                ("focal_heads", "heads", "focal_length"),
                f"focal_heads must lie in 0 .. {heads} (heads) and focal_length be 0 or more, received "
                f"{self.focal_heads} and {self.focal_length}",
            )
        check_one_of(("mask", "full"), unreachable=self.unreachable)
        if self.neighbors == "lists" and (self.focal_heads < heads or self.unreachable == "full"):
            raise ArgumentError(
                ("neighbors", "focal_heads", "unreachable"),
                f"neighbors: lists has no pairs beyond focal_length: all {heads} heads must be focal and "
                f"unreachable mask, received {self.focal_heads} and {self.unreachable}",
            )

    def head_width(self, dim: int, heads: int) -> int:
        """Channels per head.

        Raises:
            ArgumentError: ``attn_dim`` is 0 and ``dim`` no multiple of ``heads``.
        """
        if self.attn_dim:
            return self.attn_dim
        if dim % heads:
            raise ArgumentError(
                ("dim", "heads"),
                f"dim must be a multiple of heads where attn_dim is 0, received dim={dim}, heads={heads}",
            )
        return dim // heads

    def edge_types(self, released: Released) -> EdgeTypes:
        """Edge types of the tables; ``released`` is the variant of the released code that ``self.released`` chooses."""
        return EdgeTypes(self.num_edge_types, self.edge_radix, self.edge_offset, released if self.released else "")


def distance_transforms(arguments: Mapping[str, Any], layer: str) -> dict[str, dict[str, Any]]:
    """Distances of all pairs, or lists of the nodes within ``focal_length`` hops, as ``neighbors`` says.

    Args:
        arguments: all arguments of a layer that takes :class:`FocalSettings`, by name.
        layer: name of the layer, for the message.

    Raises:
        ArgumentError: another value of ``neighbors``.
    """
    if arguments["neighbors"] == "pairs":
        return {"ShortestPaths": {}}
    if arguments["neighbors"] == "lists":
        return {"HopNeighbors": {"cutoff": max(arguments["focal_length"], 1)}}
    raise ArgumentError("neighbors", f"{layer}: neighbors must be pairs or lists, received {arguments['neighbors']!r}")
