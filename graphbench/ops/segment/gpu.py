"""Sums and means over the rows of every graph, a Triton kernel forward and one backward, without tables (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import first_order
from graphbench.ops.gpu_launch import constants_of, has_kernels, loadable, unit_stride, wide_of
from graphbench.ops.segment import cpu
from graphbench.ops.segment.gpu_kernels import flip_rows, spread_rows, sum_rows
from graphbench.structures import Ragged

# Rows of the largest graph up to which one program adds them all: 32 additions one after the other, as in cpu.py.
LARGEST = 1024
# Rows and channels of a tile.
ROWS, COLUMNS = 32, 64


def segment_sum(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_sum`; graphs of more than 1024 rows go through torch code."""
    return _apply(x, ragged, False) if _reaches(x, ragged) else cpu.segment_sum(x, ragged)


def segment_mean(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_mean`; graphs of more than 1024 rows go through torch code."""
    return _apply(x, ragged, True) if _reaches(x, ragged) else cpu.segment_mean(x, ragged)


@torch.no_grad()
def segment_flip(x: Tensor, coin: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_flip`; graphs of more than 1024 rows go through torch code."""
    if not _reaches(x, ragged):
        return cpu.segment_flip(x, coin, ragged)
    rows = loadable(unit_stride(x), wide_of(x.dtype))
    out, known = x.new_empty(x.shape), constants(x.shape[1], x.dtype, False)
    with torch.cuda.device_of(x):
        flip_rows[_grid(ragged, known)](rows, coin.contiguous(), ragged.ptr, out, rows.stride(0), **known)
    return out


def _reaches(x: Tensor, ragged: Ragged) -> bool:
    return has_kernels("segment", x) and x.numel() > 0 and ragged.max_size <= LARGEST


def _apply(x: Tensor, ragged: Ragged, mean: bool) -> Tensor:
    rows = unit_stride(x if x.dim() == 2 else x.reshape(len(x), -1))
    out: Tensor = _SegmentSum.apply(rows, ragged, mean)  # type: ignore[no-untyped-call]
    return out.view(ragged.num_graphs, *x.shape[1:])


def constants(width: int, dtype: torch.dtype, mean: bool) -> dict[str, Any]:
    """What is known when a kernel is compiled."""
    return {"MEAN": mean} | constants_of(width, dtype, ROWS, COLUMNS)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ragged: Ragged, mean: bool) -> Tensor:
        out, known = x.new_empty(ragged.num_graphs, x.shape[1]), constants(x.shape[1], x.dtype, mean)
        ctx.ragged, ctx.known, ctx.shape = ragged, known, x.shape
        wide = loadable(x, wide_of(x.dtype))
        with torch.cuda.device_of(x):
            sum_rows[_grid(ragged, known)](wide, ragged.ptr, out, wide.stride(0), **known)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad, dx = unit_stride(grad), grad.new_empty(ctx.shape)
        with torch.cuda.device_of(grad):
            spread_rows[_grid(ctx.ragged, ctx.known)](grad, ctx.ragged.ptr, dx, grad.stride(0), **ctx.known)
        return dx, None, None


def _grid(ragged: Ragged, known: dict[str, Any]) -> tuple[int, int]:
    return ragged.num_graphs, -(-known["WIDTH"] // known["SPAN"])
