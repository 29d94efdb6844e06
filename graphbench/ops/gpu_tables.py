"""Triton kernel of the tables of tiles of a padded batch. Prefixes of names: ``ops/gpu_tiles.py``."""

import triton
import triton.language as tl


@triton.jit
def tiles_of(ptr, o_g, m_g, smaller, largest, ROWS: tl.constexpr):
    """[graphs] number of tiles of graphs of ``smaller < n <= largest`` rows; 0 for others."""
    n = tl.load(ptr + o_g + 1, mask=m_g, other=0) - tl.load(ptr + o_g, mask=m_g, other=0)
    return tl.where((n > smaller) & (n <= largest), (n + (ROWS - 1)) // ROWS, 0)


@triton.jit(do_not_specialize=["graphs", "room", "smaller", "largest"])
def tile_table(ptr, tiles, graphs, room, smaller, largest, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Lines (graph, first row within it) of the tiles of some graphs: a program per graph, and one behind the last.

    That fills what is left with tiles behind the rows of the last graph.
    """
    i_g, o_b = tl.program_id(0), tl.arange(0, BLOCK)
    b_before = tl.zeros([BLOCK], dtype=tl.int64)
    for i_first in range(0, i_g, BLOCK):
        o_g = i_first + o_b
        b_before += tiles_of(ptr, o_g, o_g < i_g, smaller, largest, ROWS)
    before = tl.sum(b_before, 0).to(tl.int32)
    if i_g < graphs:
        own = tl.sum(tiles_of(ptr, i_g + o_b, o_b == 0, smaller, largest, ROWS), 0).to(tl.int32)
        for i_t in range(0, own, BLOCK):
            o_t = i_t + o_b
            p_line = tiles + 2 * (before + o_t)
            tl.store(p_line, (o_t * 0 + i_g).to(tl.int64), mask=o_t < own)
            tl.store(p_line + 1, (o_t * ROWS).to(tl.int64), mask=o_t < own)
    else:
        behind = tl.load(ptr + graphs) - tl.load(ptr + graphs - 1)
        for i_t in range(before, room, BLOCK):
            o_t = i_t + o_b
            tl.store(tiles + 2 * o_t, (o_t * 0 + graphs - 1).to(tl.int64), mask=o_t < room)
            tl.store(tiles + 2 * o_t + 1, o_t * 0 + behind, mask=o_t < room)
