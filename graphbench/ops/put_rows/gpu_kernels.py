"""Kernel of :mod:`graphbench.ops.put_rows.gpu`."""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import copy_rows


@triton.jit
def put(place, sources, targets, rows, ends, LEVELS: tl.constexpr, WIDTHS: tl.constexpr, ROWS: tl.constexpr):
    """A tile of rows of one tensor: program (tile, tensor)."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    for i in tl.static_range(len(LEVELS)):
        if tl.program_id(1) == i:
            there = tl.load(place + LEVELS[i]) + row
            copy_rows(sources[i], targets[i], there, row, (row < rows[i]) & (there < ends[i]), WIDTHS[i])
