"""Sums, means and repeated rows of graphs, a Triton kernel forward and one backward, and sums of bags (README)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import constants_of, has_kernels, loadable, unit_stride, wide_of
from graphbench.ops.segment import cpu
from graphbench.ops.segment.gpu_kernels import flip_rows, spread_rows, sum_bag, sum_rows
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

# Rows of the largest graph up to which one program adds them all: 32 additions one after the other, as in cpu.py.
LARGEST = 1024
# Rows and channels of a tile.
ROWS, COLUMNS = 32, 64
# Rows of a tile of bags, at least and at most, and entries of a tile for every thread.
FEWEST, MOST, ENTRIES = 4, 64, 16
# Programs of a launch along its second axis.
MOST_PROGRAMS = 65_535


def segment_sum(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_sum`; graphs of more than 1024 rows go through torch code."""
    return _apply(x, ragged, False) if _reaches(x, ragged) else cpu.segment_sum(x, ragged)


def segment_mean(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_mean`; graphs of more than 1024 rows go through torch code."""
    return _apply(x, ragged, True) if _reaches(x, ragged) else cpu.segment_mean(x, ragged)


def segment_repeat(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_repeat`; graphs of more than 1024 rows go through torch code."""
    if not _reaches(x, ragged):
        return cpu.segment_repeat(x, ragged)
    rows = x if x.dim() == 2 else x.reshape(len(x), -1)
    out: Tensor = _SegmentRepeat.apply(rows, ragged)  # type: ignore[no-untyped-call]
    return out.view(ragged.num_rows, *x.shape[1:])


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


def bag_sum(rows: Tensor, index: Tensor, ptr: Tensor, weight: Tensor | None = None) -> Tensor:
    """See :func:`graphbench.ops.segment.bag_sum`."""
    if not has_kernels("bag_sum", rows):
        return cpu.bag_sum(rows, index, ptr, weight)
    wide, width = wide_of(rows.dtype), rows.shape[1]
    bags = len(ptr) - 1
    known = bag_constants(width, rows.dtype, len(index) / max(1, bags))
    spans = -(-width // known["SPAN"])
    if not bags or spans > MOST_PROGRAMS:
        return cpu.bag_sum(rows, index, ptr, weight)
    out = rows.new_empty(bags, width)
    given = loadable(unit_stride(rows), wide)
    factor = given if weight is None else loadable(weight.contiguous(), wide)
    with torch.cuda.device_of(rows):
        sum_bag[bags, spans](given, index, ptr, factor, out, given.stride(0), WEIGHTED=weight is not None, **known)
    return out


def _reaches(x: Tensor, ragged: Ragged) -> bool:
    return has_kernels("segment", x) and x.numel() > 0 and 0 < ragged.max_size <= LARGEST


def _apply(x: Tensor, ragged: Ragged, mean: bool) -> Tensor:
    rows = x if x.dim() == 2 else x.reshape(len(x), -1)
    out: Tensor = _SegmentSum.apply(rows, ragged, mean)  # type: ignore[no-untyped-call]
    return out.view(ragged.num_graphs, *x.shape[1:])


def bag_constants(width: int, dtype: torch.dtype, mean: float) -> dict[str, Any]:
    """Constants for bags of so many rows on average, which are one tile."""
    rows = min(MOST, max(FEWEST, 1 << (math.ceil(mean) - 1).bit_length()))
    known = constants_of(width, dtype, rows, COLUMNS)
    return known | {"num_warps": max(1, rows * known["SPAN"] // (32 * ENTRIES))}


def constants(width: int, dtype: torch.dtype, mean: bool) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled."""
    return {"MEAN": mean} | constants_of(width, dtype, ROWS, COLUMNS)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ragged: Ragged, mean: bool) -> Tensor:
        ctx.ragged, ctx.mean = ragged, mean
        return _summed(x, ragged, mean)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _spread(grad, ctx.ragged, ctx.mean), None, None


class _SegmentRepeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ragged: Ragged) -> Tensor:
        ctx.ragged = ragged
        return _spread(x, ragged, False)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _summed(grad, ctx.ragged, False), None


def _summed(x: Tensor, ragged: Ragged, mean: bool) -> Tensor:
    """(G, C) sums or means of rows (N, C)."""
    out, known = x.new_empty(ragged.num_graphs, x.shape[1]), constants(x.shape[1], x.dtype, mean)
    rows = loadable(unit_stride(x), wide_of(x.dtype))
    with torch.cuda.device_of(x):
        sum_rows[_grid(ragged, known)](rows, ragged.ptr, out, rows.stride(0), **known)
    return out


def _spread(x: Tensor, ragged: Ragged, mean: bool) -> Tensor:
    """(N, C) for every row what its graph has in ``x`` (G, C), divided by its rows for ``mean``."""
    out, known = x.new_empty(ragged.num_rows, x.shape[1]), constants(x.shape[1], x.dtype, mean)
    rows = unit_stride(x)
    with torch.cuda.device_of(x):
        spread_rows[_grid(ragged, known)](rows, ragged.ptr, out, rows.stride(0), **known)
    return out


def _grid(ragged: Ragged, known: dict[str, Any]) -> tuple[int, int]:
    return ragged.num_graphs, -(-known["WIDTH"] // known["SPAN"])
