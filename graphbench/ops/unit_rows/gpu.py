"""Rows of length one, a Triton kernel forward and one backward (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import constants_of, has_kernels, loadable, unit_stride, wide_of
from graphbench.ops.unit_rows import cpu
from graphbench.ops.unit_rows.gpu_kernels import unit_rows_backward, unit_rows_forward
from graphbench.structures.first_order import first_order

# Rows of a tile, and channels that one program holds at most.
ROWS, WIDEST = 8, 1024


def unit_rows(x: Tensor, eps: float) -> Tensor:
    """See :func:`graphbench.ops.unit_rows.unit_rows`; rows of more than 1024 channels go through torch code."""
    if not has_kernels("unit_rows", x) or not x.numel() or x.shape[1] > WIDEST:
        return cpu.unit_rows(x, eps)
    return _UnitRows.apply(unit_stride(x), eps)  # type: ignore[no-untyped-call]


def constants(width: int, dtype: torch.dtype, eps: float) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled."""
    return {"EPS": eps} | constants_of(width, dtype, ROWS)


class _UnitRows(torch.autograd.Function):
    """Saves its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        out, known = x.new_empty(x.shape), constants(x.shape[1], x.dtype, eps)
        wide = loadable(x, wide_of(x.dtype))
        with torch.cuda.device_of(x):
            unit_rows_forward[(-(-len(x) // ROWS),)](wide, out, len(x), wide.stride(0), **known)
        ctx.save_for_backward(wide)
        ctx.known = known
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        grad = unit_stride(grad)
        dx = grad.new_empty(x.shape)
        with torch.cuda.device_of(x):
            unit_rows_backward[(-(-len(x) // ROWS),)](x, grad, dx, len(x), x.stride(0), grad.stride(0), **ctx.known)
        return dx, None
