"""Sums of rows of the transposed weight; the gradient is sums of rows of the output's, column by column."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.segment import bag_sum
from graphbench.structures import SparseRows
from graphbench.structures.first_order import first_order

# Numbers of the two gathered operands of a piece, when values have a gradient: 16 MiB of float32 each.
_PIECE = 1 << 22


def sparse_linear(x: SparseRows, weight: Tensor) -> Tensor:
    """See :func:`graphbench.ops.sparse_linear.sparse_linear`; without the bias."""
    return _SparseLinear.apply(x, x.value, weight)  # type: ignore[no-untyped-call]


def _bag(rows: Tensor, index: Tensor, ptr: Tensor, value: Tensor) -> Tensor:
    """:func:`bag_sum`, half precision widened, where there may be nothing to sum."""
    if rows.numel() == 0 or index.numel() == 0:
        return rows.new_zeros(ptr.numel() - 1, rows.shape[1])
    wide = compute_dtype(rows)
    return bag_sum(rows.to(wide), index, ptr, value.to(wide)).to(rows.dtype)


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: SparseRows, value: Tensor, weight: Tensor) -> Tensor:
        ctx.x = x
        ctx.save_for_backward(weight if ctx.needs_input_grad[1] else None)
        # The kernel reads rows: copying the weight once is a fraction of what gathering its columns would cost.
        return _bag(weight.t().contiguous(), x.column, x.ptr, value)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        x: SparseRows = ctx.x
        grad_value = grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_value = _grad_of_values(x, weight, grad)
        if ctx.needs_input_grad[2]:
            lists = x.by_column
            grad_weight = _bag(grad.contiguous(), lists.row, lists.ptr, x.value_by_column).t()
        return None, grad_value, grad_weight


def _grad_of_values(x: SparseRows, weight: Tensor, grad: Tensor) -> Tensor:
    """(nnz,) products of the row of ``grad`` and the column of the weight that meet in an entry."""
    columns, grad_value = weight.t().contiguous(), torch.empty_like(x.value)
    piece = max(1, _PIECE // max(weight.shape[0], 1))
    for part in torch.arange(x.value.numel(), device=x.device).split(piece):
        grad_value[part] = (grad[x.row[part]] * columns[x.column[part]]).sum(1)
    return grad_value
