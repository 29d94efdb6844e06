"""The batch in two Triton kernels: one program finds the places, the second launch copies all fields (README)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from graphbench.ops.batch_rows import cpu
from graphbench.ops.batch_rows.field import Field, PaddedRows, RowCapacity
from graphbench.ops.batch_rows.gpu_kernels import places, rows
from graphbench.ops.gpu_launch import as_bytes, has_kernels
from graphbench.ops.gpu_tiles import TRITON

OLDEST = (3, 6)
"""Triton whose kernels take lists of tensors of several types."""
# Rows of a tile.
ROWS = 128
_KINDS = {"values": 0, "ends": 1, "order": 2, "graphs": 3}
_REAL, _REAL_GRAPHS, _LISTS = 4, 5, 6


def batch_rows(numbers: Tensor, ptr: Tensor, fields: Sequence[Field], capacity: RowCapacity) -> PaddedRows:
    """See :func:`graphbench.ops.batch_rows.batch_rows`."""
    if not has_kernels("batch_rows", numbers) or TRITON < OLDEST:
        return cpu.batch_rows(numbers, ptr, fields, capacity)
    num_places, graphs = len(numbers), len(numbers) + capacity.padding_graphs
    offsets, shift = ptr.new_empty(len(ptr), graphs + 1), ptr.new_empty(len(ptr), num_places)
    count, limits = ptr.new_empty(()), _on_device(capacity.rows, ptr.device)
    targets = [_target(field, graphs, capacity) for field in fields]
    real = [numbers.new_empty(total, dtype=torch.bool) for total in (*capacity.rows, graphs)]
    kinds = [*(_KINDS[field.kind] for field in fields), *[_REAL] * len(capacity.rows), _REAL_GRAPHS]
    levels = [*(field.level for field in fields), *range(len(capacity.rows)), 0]
    sources = [*(as_bytes(field.source) for field in fields), *[numbers] * len(real)]  # masks have none
    edges, order = _edges_and_order(fields)
    lists = None
    if order is not None:
        nodes, level = capacity.rows[0], order.level
        lists = numbers.new_empty(2 * (capacity.rows[level] + _beginnings(nodes)))
        kinds, levels, sources = [*kinds, _LISTS], [*levels, level], [*sources, order.source]
    numbered = (_KINDS["ends"], _KINDS["order"], _LISTS)
    block = triton.next_power_of_2(max(num_places, capacity.padding_graphs + 1))
    with torch.cuda.device_of(numbers):
        places[1,](
            numbers, ptr, limits, offsets, shift, count,
            ptr.shape[1] - 1, num_places, capacity.padding_graphs, capacity.max_size,
            LEVELS=len(ptr), BLOCK=block, num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
        rows[-(-(max(graphs, *capacity.rows) + 1) // ROWS), len(kinds)](
            numbers, limits, offsets, shift, tuple(sources),
            tuple(as_bytes(target) for target in [*targets, *real, *([] if lists is None else [lists])]),
            tuple(source.shape[1] if kind in numbered else 0 for kind, source in zip(kinds, sources, strict=True)),
            num_places, capacity.padding_graphs,
            KINDS=tuple(kinds), LEVELS=tuple(levels),
            WIDTHS=tuple(math.prod(source.shape[1:]) for source in sources), EDGES=edges,
            SEARCH=max(1, (num_places - 1).bit_length()), ROWS=ROWS, num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
    return PaddedRows(offsets, count, targets, real[:-1], real[-1], _lists_of(lists, capacity, order))


def _edges_and_order(fields: Sequence[Field]) -> tuple[int, Field | None]:
    """Number of the field of the ends of edges, and their order; None where either is not asked for."""
    order = next((field for field in fields if field.kind == "order"), None)
    level = None if order is None else order.level
    edges = next((i for i, field in enumerate(fields) if field.kind == "ends" and field.level == level), None)
    return (0, None) if edges is None else (edges, order)


def _lists_of(lists: Tensor | None, capacity: RowCapacity, order: Field | None) -> tuple[Tensor, Tensor] | None:
    if lists is None or order is None:
        return None
    edges, nodes = capacity.rows[order.level], capacity.rows[0]
    return lists[2 * edges :].view(2, -1)[:, : nodes + 1], lists[: 2 * edges].view(2, -1)


def _beginnings(nodes: int) -> int:
    """Number of places where the list of every node begins, and the end: even, so that what follows is aligned."""
    return (nodes + 2) // 2 * 2


def _target(field: Field, graphs: int, capacity: RowCapacity) -> Tensor:
    if field.is_numbered:
        return field.source.new_empty(2, capacity.rows[field.level], dtype=torch.int64)
    total = graphs if field.kind == "graphs" else capacity.rows[field.level]
    return field.source.new_empty(total, *field.source.shape[1:], dtype=field.dtype)


@functools.cache  # recorded graphs read what is kept here
def _on_device(values: tuple[int, ...], device: torch.device) -> Tensor:
    """Copied once, so that no graph records a copy; the host waits, as trainings on other streams read it, too."""
    return torch.tensor(values).to(device)
