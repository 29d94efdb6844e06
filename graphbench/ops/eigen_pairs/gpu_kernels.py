"""Triton kernel of pairs of eigenvectors and eigenvalues. Prefixes of names: ``ops/gpu_tiles.py``."""

import triton
import triton.language as tl


@triton.jit
def signed_pairs(
    eigvecs, eigvals, ptr, seed, pairs, present, s_vecs, s_vals,
    FLIP: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Pairs of one graph and some frequencies. The seed is read from memory, where a captured step draws another."""
    i_g = tl.program_id(0).to(tl.int64)
    bos = tl.load(ptr + i_g)
    n = tl.load(ptr + i_g + 1) - bos
    o_k = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    m_k = o_k < WIDTH
    b_minus = o_k < 0
    if FLIP:
        b_minus = (tl.randint(tl.load(seed), (i_g * WIDTH + o_k).to(tl.int32)) & 1) == 0
    for i_n in range(0, n, ROWS):
        o_n = i_n + tl.arange(0, ROWS)
        m_x = (o_n < n)[:, None] & m_k[None, :]
        # [ROWS, SPAN]
        b_vec = tl.load(eigvecs + (bos + o_n)[:, None] * s_vecs + o_k[None, :], mask=m_x, other=0.0)
        b_val = tl.load(eigvals + (bos + o_n)[:, None] * s_vals + o_k[None, :], mask=m_x, other=0.0)
        b_absent = b_vec != b_vec
        b_vec = tl.where(b_minus[None, :], -b_vec, b_vec)
        o_x = (bos + o_n)[:, None] * WIDTH + o_k[None, :]
        tl.store(pairs + 2 * o_x, tl.where(b_absent, 0.0, b_vec).to(pairs.dtype.element_ty), mask=m_x)
        tl.store(pairs + 2 * o_x + 1, tl.where(b_absent, 0.0, b_val).to(pairs.dtype.element_ty), mask=m_x)
        tl.store(present + o_x, tl.where(b_absent, 0.0, 1.0).to(present.dtype.element_ty), mask=m_x)
