"""Triton kernel of sums of a few tensors. Prefixes of names: ``ops/gpu_tiles.py``."""

import triton
import triton.language as tl

MOST = 4


@triton.jit(do_not_specialize=["size"])
def add_all(a, b, c, d, out, size, COUNT: tl.constexpr, ENTRIES: tl.constexpr, ACC: tl.constexpr):
    """``a + b``, plus ``c`` and ``d`` where COUNT says that they are there, from the left to the right."""
    o_x = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    m_x = o_x < size
    b_sum = tl.load(a + o_x, mask=m_x, other=0.0).to(ACC) + tl.load(b + o_x, mask=m_x, other=0.0).to(ACC)
    if COUNT > 2:
        b_sum += tl.load(c + o_x, mask=m_x, other=0.0).to(ACC)
    if COUNT > 3:
        b_sum += tl.load(d + o_x, mask=m_x, other=0.0).to(ACC)
    tl.store(out + o_x, b_sum.to(out.dtype.element_ty), mask=m_x)
