"""Associations of proteins (ogbg-ppa): seven strengths per edge."""

from __future__ import annotations

from typing import ClassVar

from graphbench.encoders.edge.linear import LinearEdge
from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register

EDGE_COLUMNS = 7


@register("PPAEdge")
class PPAEdge(LinearEdge):
    """Linear map of the edge features of ogbg-ppa.

    e_ij = W a_ij + b.

    Args:
        dim: width of the result.
        edge_in: columns of ``batch.edge_attr``, which must be 7.

    Shape:
        edge_attr (E, 7) -> (E, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int], edge_in: FromContext[int] = EDGE_COLUMNS) -> None:
        if edge_in != EDGE_COLUMNS:
            raise ArgumentError("edge_in", f"PPAEdge reads {EDGE_COLUMNS} columns, received edge_in = {edge_in}")
        super().__init__(dim, edge_in)
