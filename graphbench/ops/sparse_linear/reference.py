"""The operator of this folder as a loop over rows."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import SparseRows


def sparse_linear(x: SparseRows, weight: Tensor) -> Tensor:
    """See :func:`graphbench.ops.sparse_linear.sparse_linear`; without the bias."""
    rows = []
    for first, last in zip(x.ptr[:-1].tolist(), x.ptr[1:].tolist()):
        row = weight.new_zeros(weight.shape[0])
        for entry in range(first, last):
            row = row + x.value[entry] * weight[:, x.column[entry]]
        rows.append(row)
    return torch.stack(rows) if rows else weight.new_zeros(0, weight.shape[0])
