"""Rows put in their places by one Triton kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import as_bytes, has_kernels
from graphbench.ops.gpu_tiles import TRITON
from graphbench.ops.put_rows import cpu
from graphbench.ops.put_rows.gpu_kernels import put

OLDEST = (3, 6)
"""Triton whose kernels take lists of tensors of several types."""
# Rows of a tile.
ROWS = 128


def put_rows(place: Tensor, sources: Sequence[Tensor], targets: Sequence[Tensor], levels: Sequence[int]) -> None:
    """See :func:`graphbench.ops.put_rows.put_rows`."""
    if not has_kernels("put_rows", place) or TRITON < OLDEST:
        cpu.put_rows(place, sources, targets, levels)
        return
    given = [
        (as_bytes(source.contiguous()), as_bytes(target), level, source[0].numel())
        for source, target, level in zip(sources, targets, levels, strict=True)
        if source.numel()
    ]
    if not given:
        return
    read, written, chosen, widths = zip(*given, strict=True)
    rows, ends = tuple(len(source) for source in read), tuple(len(target) - 1 for target in written)
    with torch.cuda.device_of(place):
        put[-(-max(rows) // ROWS), len(given)](
            place,
            read,
            written,
            rows,
            ends,
            LEVELS=chosen,
            WIDTHS=widths,
            ROWS=ROWS,
            num_warps=4,
            enable_fp_fusion=True,
        )
