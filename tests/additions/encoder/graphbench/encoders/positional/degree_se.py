"""Degrees as a structural encoding."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import ColumnEncoder
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("DegreeSE")
class DegreeSE(ColumnEncoder):
    """A linear map of the logarithm of a node's in-degree.

    Args:
        dim_pe: columns of the encoding.

    Shape:
        (N, 1) -> (N, dim_pe)
    """

    transform: ClassVar[str | None] = "InDegree"

    def __init__(self, dim_pe: int = 4) -> None:
        super().__init__()
        self.lin = nn.Linear(1, dim_pe)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Encodes every node."""
        out: Tensor = self.lin(self.encoding(batch, "degree", 1))
        return out
