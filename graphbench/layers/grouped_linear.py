"""Linear maps of several groups of columns, or of several tokens, each with its own weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError


class GroupedLinear(nn.Module):
    """y_g = x_g W_g + b_g for every group g.

    Args:
        groups: G.
        dim_in: columns of a group that come in.
        dim_out: columns of a group that go out.
        bias: add b.

    Shape:
        (N, G, dim_in) -> (N, G, dim_out)
    """

    def __init__(self, groups: int, dim_in: int, dim_out: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups, dim_in, dim_out))
        self.bias = nn.Parameter(torch.empty(groups, 1, dim_out)) if bias else None
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(dim_in**-0.5), dim_in**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(N, G, dim_out)."""
        rows = x.transpose(0, 1)
        y = torch.bmm(rows, self.weight) if self.bias is None else torch.baddbmm(self.bias, rows, self.weight)
        return y.transpose(0, 1)


def check_towers(towers: int, dim_in: int, dim_out: int) -> None:
    """Refuses widths that do not divide into that many groups of channels with maps of their own.

    Raises:
        ArgumentError: ``dim_in`` or ``dim_out`` is no multiple of ``towers``.
    """
    if towers < 1 or dim_in % towers or dim_out % towers:
        received = f"received dim_in={dim_in}, dim_out={dim_out}, towers={towers}"
        raise ArgumentError(("towers", "dim_in", "dim_out"), f"widths must be multiples of towers, {received}")
