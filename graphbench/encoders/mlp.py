"""The small networks inside positional encoders."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn


class ReLUStack(nn.ModuleList):
    """Linear maps with a ReLU after each, the last one included; hidden rows are twice as wide as the output.

    Args:
        dim_in: width of the input.
        dim: width of the output.
        layers: number of linear maps, 0 for the identity.

    Shape:
        (..., dim_in) -> (..., dim)
    """

    def __init__(self, dim_in: int, dim: int, layers: int):
        widths = [dim_in, *[2 * dim] * (layers - 1), dim] if layers else [dim]
        super().__init__(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, h: Tensor) -> Tensor:
        """Applies all maps."""
        for linear in self:
            h = linear(h).relu()
        return h
