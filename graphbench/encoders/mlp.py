"""Multi-layer perceptrons of positional encoders."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError
from graphbench.layers.linear import Linear
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm
from graphbench.ops.linear import linear
from graphbench.structures import GraphBatch


def relu_linear(h: Tensor, lin: nn.Linear) -> Tensor:
    """``relu(lin(h))`` of rows of any number of dimensions, (..., in) -> (..., out)."""
    out = linear(h.reshape(-1, lin.in_features), lin.weight, lin.bias, act="relu")
    return out.view(*h.shape[:-1], lin.out_features)


class ReLUStack(nn.ModuleList):
    """Linear maps with a ReLU after each, the last one included; hidden rows are twice as wide as the output.

    Args:
        dim_in: width of the input.
        dim: width of the output.
        layers: number of linear maps, 0 for the identity.

    Shape:
        (..., dim_in) -> (..., dim)
    """

    def __init__(self, dim_in: int, dim: int, layers: int) -> None:
        widths = [dim_in, *[2 * dim] * (layers - 1), dim] if layers else [dim]
        super().__init__(Linear(a, b) for a, b in pairwise(widths))

    def forward(self, h: Tensor) -> Tensor:
        """(..., dim)."""
        for lin in self:
            assert isinstance(lin, nn.Linear)
            h = relu_linear(h, lin)
        return h


class NormedMLP(nn.Module):
    """Linear maps; all but the last are followed by a ReLU and a BatchNorm over all rows.

    Args:
        dim_in: width of the input.
        hidden: width between the maps.
        dim: width of the output.
        layers: number of linear maps, 1 or more.

    Shape:
        (..., dim_in) -> (..., dim)
    """

    def __init__(self, dim_in: int, hidden: int, dim: int, layers: int) -> None:
        super().__init__()
        widths = [dim_in, *[hidden] * (layers - 1), dim]
        self.lin: Modules[nn.Linear] = Modules(Linear(a, b) for a, b in pairwise(widths))
        self.norm: Modules[BatchNorm] = Modules(BatchNorm(hidden) for _ in range(layers - 1))

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, ..., dim) from (N, ..., dim_in), N the nodes of the batch."""
        *hidden, last = self.lin
        for lin, norm in zip(hidden, self.norm, strict=True):
            h = over_rows(norm, relu_linear(h, lin), batch)
        return last(h)

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights."""
        first, *_ = self.lin
        return first.weight.dtype


def over_rows(norm: BatchNorm, h: Tensor, batch: GraphBatch) -> Tensor:
    """``h`` (N, ..., dim) of the nodes of the batch with its last dimension normalised over all the others."""
    rows: Tensor = norm(h.reshape(-1, h.shape[-1]), batch)
    return rows.view_as(h)


def raw_norm(encoder: str, kind: str, columns: int) -> BatchNorm | None:
    """Normalisation of the input of an encoder (``posenc_*.raw_norm_type``, case ignored), or None.

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
