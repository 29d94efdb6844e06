"""Triton kernels of mixtures. Prefixes of names: ``ops/gpu_tiles.py``; equations: README."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["size"])
def blend_forward(a, b, gamma, out, size, ENTRIES: tl.constexpr, ACC: tl.constexpr):
    """Entries of the mixture."""
    o_x = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    share = tl.load(gamma).to(ACC)
    b_a = tl.load(a + o_x, mask=o_x < size, other=0.0).to(ACC)
    b_b = tl.load(b + o_x, mask=o_x < size, other=0.0).to(ACC)
    rest = 1.0 / (1.0 + share)
    b_out = rest * b_a + (share * rest) * b_b
    tl.store(out + o_x, b_out.to(out.dtype.element_ty), mask=o_x < size)


@triton.jit(do_not_specialize=["size"])
def blend_backward(a, b, gamma, grad, da, db, parts, size, ENTRIES: tl.constexpr, ACC: tl.constexpr):
    """Gradients of both, and a part of that of ``gamma``."""
    o_x = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    share = tl.load(gamma).to(ACC)
    rest = 1.0 / (1.0 + share)
    b_a = tl.load(a + o_x, mask=o_x < size, other=0.0).to(ACC)
    b_b = tl.load(b + o_x, mask=o_x < size, other=0.0).to(ACC)
    b_grad = tl.load(grad + o_x, mask=o_x < size, other=0.0).to(ACC)
    tl.store(da + o_x, (b_grad * rest).to(da.dtype.element_ty), mask=o_x < size)
    tl.store(db + o_x, (b_grad * (share * rest)).to(db.dtype.element_ty), mask=o_x < size)
    tl.store(parts + tl.program_id(0), tl.sum(b_grad * (b_b - b_a), 0) * rest * rest)
