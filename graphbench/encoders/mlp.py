"""The small networks inside positional encoders."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from graphbench.errors import ArgumentError
from graphbench.layers.norm import BatchNorm


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


class NormedMLP(nn.Module):
    """Linear maps; after each but the last one a ReLU and then a BatchNorm over all rows.

    Args:
        dim_in: width of the input.
        hidden: width between the maps.
        dim: width of the output.
        layers: number of linear maps, 1 or more.

    Shape:
        (..., dim_in) -> (..., dim)
    """

    def __init__(self, dim_in: int, hidden: int, dim: int, layers: int):
        super().__init__()
        widths = [dim_in, *[hidden] * (layers - 1), dim]
        self.lin = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.norm = nn.ModuleList(BatchNorm(hidden) for _ in range(layers - 1))

    def forward(self, h: Tensor) -> Tensor:
        """Applies all maps."""
        for linear, norm in zip(self.lin, self.norm, strict=False):  # the last map has no norm
            h = over_rows(norm, linear(h).relu())
        return self.lin[-1](h)


def over_rows(norm: nn.Module, h: Tensor) -> Tensor:
    """Normalises the last dimension of ``h`` over all the others."""
    return norm(h.reshape(-1, h.shape[-1])).view_as(h)


def raw_norm(encoder: str, kind: str, columns: int) -> BatchNorm | None:
    """What normalises the numbers an encoder reads (``posenc_*.raw_norm_type``, case ignored).

    Args:
        encoder: registered name, for the message.
        kind: ``none`` or ``BatchNorm``.
        columns: numbers per node or edge.

    Raises:
        ValueError: another kind.
    """
    if kind.lower() not in ("none", "batchnorm"):
        raise ArgumentError("raw_norm_type", f"{encoder}: raw_norm_type must be none or BatchNorm, received '{kind}'")
    return BatchNorm(columns) if kind.lower() == "batchnorm" else None
