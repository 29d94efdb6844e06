"""The batch in two Triton kernels: one program finds the places, the second launch copies all fields (README)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

try:
    from graphbench.ops.batch_rows.gpu_kernels import places, rows
    from graphbench.ops.gpu_launch import has_kernels
    from graphbench.ops.gpu_tiles import TRITON
except ImportError as missing:
    raise ImportError("backend 'gpu' of batch_rows needs Triton: pip install triton") from missing

import triton

from graphbench.ops.batch_rows import cpu
from graphbench.ops.batch_rows.field import Field, PaddedRows, Room

OLDEST = (3, 6)
"""Triton whose kernels take lists of tensors of several types."""
# Rows of a tile.
ROWS = 128
_KINDS = {"values": 0, "ends": 1, "order": 2, "graphs": 3}


def batch_rows(numbers: Tensor, ptr: Tensor, fields: Sequence[Field], room: Room) -> PaddedRows:
    """See :func:`graphbench.ops.batch_rows.batch_rows`.

    Raises:
        ValueError: the tensors lie on a device that Triton cannot reach.
    """
    if not has_kernels("batch_rows", numbers) or TRITON < OLDEST:
        return cpu.batch_rows(numbers, ptr, fields, room)
    num_places, graphs = len(numbers), len(numbers) + room.padding_graphs
    offsets, shift = ptr.new_empty(len(ptr), graphs + 1), ptr.new_empty(len(ptr), num_places)
    count, limits = ptr.new_empty(()), _on_device(room.rows, ptr.device)
    targets = [_target(field, graphs, room) for field in fields]
    block = triton.next_power_of_2(max(num_places, room.padding_graphs + 1))
    longest = max(graphs, *(room.rows[field.level] for field in fields))
    with torch.cuda.device_of(numbers):
        places[1,](
            numbers, ptr, limits, offsets, shift, count,
            ptr.shape[1] - 1, num_places, room.padding_graphs, room.max_size,
            LEVELS=len(ptr), BLOCK=block, num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
        rows[-(-longest // ROWS), len(fields)](
            numbers, limits, offsets, shift,
            tuple(_plain(field.source) for field in fields), tuple(_plain(target) for target in targets),
            tuple(field.source.shape[1] if field.is_numbered else 0 for field in fields),
            num_places, room.padding_graphs,
            KINDS=tuple(_KINDS[field.kind] for field in fields), LEVELS=tuple(field.level for field in fields),
            WIDTHS=tuple(field.source[0].numel() if field.source.dim() > 1 else 1 for field in fields),
            SEARCH=max(1, (num_places - 1).bit_length()), ROWS=ROWS, num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
    return PaddedRows(offsets, count, targets)


def _target(field: Field, graphs: int, room: Room) -> Tensor:
    if field.is_numbered:
        return field.source.new_empty(2, room.rows[field.level], dtype=torch.int64)
    total = graphs if field.kind == "graphs" else room.rows[field.level]
    return field.source.new_empty(total, *field.source.shape[1:], dtype=field.dtype)


def _plain(x: Tensor) -> Tensor:
    """Truth values are copied as the bytes that they are."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


@functools.lru_cache(maxsize=256)
def _on_device(values: tuple[int, ...], device: torch.device) -> Tensor:
    """Copied once: a recorded batch reads it, and records no copy."""
    return torch.tensor(values).to(device)
