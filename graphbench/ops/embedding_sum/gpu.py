"""Sums of embeddings in Triton kernels: one forward; one and a sum backward, however many columns (README)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.embedding_sum import cpu
from graphbench.ops.embedding_sum.gpu_kernels import embedding_sum_backward, embedding_sum_forward
from graphbench.ops.gpu_launch import constants_of, has_kernels, loadable, unit_stride, whole_tiles, wide_of
from graphbench.ops.gpu_shares import summed
from graphbench.structures.first_order import first_order

# Rows of all tables from which comparing every category with every row costs more than sorting the categories.
LARGEST = 1024
# Rows of the batch, rows of the tables and columns of a tile.
ROWS, VOCABULARY, COLUMNS = 32, 64, 64
# Rows of the batch that one program goes through at least, and shares of the gradient at most: each is as large as it.
SHARE, SHARES = 256, 256


def embedding_sum(index: Tensor, tables: Sequence[Tensor]) -> Tensor:
    """See :func:`graphbench.ops.embedding_sum.embedding_sum`; more than 1024 rows of tables go through torch code."""
    capable = has_kernels("embedding_sum", tables[0])
    if not capable or not index.numel() or sum(len(table) for table in tables) > LARGEST:
        return cpu.embedding_sum(index, tables)
    return _EmbeddingSum.apply(index.contiguous(), *tables)  # type: ignore[no-untyped-call]


@functools.cache  # recorded graphs read what is kept here
def _first(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """(C+1,) int64, first row of every table and the total."""
    return torch.tensor([0, *accumulate(sizes)]).to(device)  # waits: trainings on other streams read it, too


def constants(columns: int, width: int, dtype: torch.dtype) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled."""
    return {"COLUMNS": columns} | constants_of(width, dtype, ROWS, COLUMNS)


class _EmbeddingSum(torch.autograd.Function):
    """Saves the categories."""

    @staticmethod
    def forward(ctx: Any, index: Tensor, *tables: Tensor) -> Tensor:
        table = tables[0].contiguous() if len(tables) == 1 else torch.cat(tables)
        sizes = tuple(len(each) for each in tables)
        first = _first(sizes, table.device)
        known = constants(len(sizes), table.shape[1], table.dtype)
        out = table.new_empty(len(index), table.shape[1])
        grid = (-(-len(index) // ROWS), -(-table.shape[1] // known["SPAN"]))
        with torch.cuda.device_of(table):
            embedding_sum_forward[grid](index, table, first, out, len(index), **known)
        ctx.save_for_backward(index, first)
        ctx.sizes, ctx.tables = sizes, tables
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        index, first = ctx.saved_tensors
        sizes, (rows, width) = ctx.sizes, grad.shape
        # A part of concatenated channels is read where it lies.
        grad = loadable(unit_stride(grad), wide_of(grad.dtype))
        total = sum(sizes)
        known = constants(len(sizes), width, grad.dtype)
        share = max(SHARE, whole_tiles(rows, SHARES, ROWS))
        shares = -(-rows // share)
        parts = grad.new_empty(shares, total, width, dtype=wide_of(grad.dtype))
        grid = (shares, -(-total // VOCABULARY), -(-width // known["SPAN"]))
        with torch.cuda.device_of(grad):
            embedding_sum_backward[grid](
                index, grad, first, parts, rows, total, grad.stride(0), share, **known, VOCABULARY=VOCABULARY
            )
        if shares == 1:
            return None, *parts[0].to(grad.dtype).split(sizes)
        return None, *summed(parts.flatten(1), ctx.tables)
