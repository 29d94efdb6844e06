"""Triton kernels of the exact sparse flow for wide heads: matrices of a graph's pairs in memory. Notation: README.

Sums of wide heads fill the registers, so that a kernel that walks through tiles has room for few rows and reads keys
again and again. Here every kernel does one thing: ``pair_products`` and ``weighted_rows`` are products of matrices,
``solve_rows`` and ``gradient_rows`` work on whole rows of them. Row i of head h has a line of ``stride`` numbers,
line ``h N + i`` of a matrix; what is behind its graph's keys is 0. ``stride`` is a multiple of 16, so that masks by it,
unlike masks by the number of keys, leave accesses of 16 bytes. Prefixes of names: ``ops/gpu_tiles.py``.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dot_as, first_of_tile, kept, locate
from graphbench.ops.sparse_flow.gpu_backward import (
    load_state,
    pair_weights,
    reference_part,
    row_sums,
    score_gradients,
    sums_of_pairs,
)
from graphbench.ops.sparse_flow.gpu_whole import solve_whole


@triton.jit
def _product(
    p_a, a_row, a_inner, p_b, b_inner, b_column, o_row, rows, o_column, columns, inner, readable,
    DOT: tl.constexpr, ACC: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """[rows, columns] sum over ``inner`` of a and b, whose neighbours along an axis are so many numbers apart.

    Of a, numbers before ``readable`` may be read, and are 0 from ``inner`` on.
    """
    b_sum = tl.zeros([o_row.shape[0], o_column.shape[0]], dtype=ACC)
    for i_c in range(0, inner, CHUNK):
        o_c = i_c + tl.arange(0, CHUNK)
        # [rows, CHUNK]
        b_a = tl.load(
            p_a + o_row[:, None] * a_row + o_c[None, :] * a_inner,
            mask=(o_row < rows)[:, None] & (o_c < readable)[None, :],
            other=0.0,
        )
        # [CHUNK, columns]
        b_b = tl.load(
            p_b + o_c[:, None] * b_inner + o_column[None, :] * b_column,
            mask=(o_c < inner)[:, None] & (o_column < columns)[None, :],
            other=0.0,
        )
        b_sum += dot_as(b_a, b_b, DOT, ACC)
    return b_sum


@triton.jit
def _tile_of(tiles, ptr, SIZE: tl.constexpr):
    """(first row of the graph in the batch, its rows, first row of the tile in the graph), the last two in 32 bits."""
    i_g = tl.load(tiles + 2 * tl.program_id(0))
    bos = tl.load(ptr + i_g)
    return bos, (tl.load(ptr + i_g + 1) - bos).to(tl.int32), tl.multiple_of(first_of_tile(tiles), SIZE)


@triton.jit(do_not_specialize=["num_rows"])
def pair_products(
    a, b, other_a, other_b, ptr, tiles, matrices, num_rows, stride,
    SCALE: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """``SCALE a b^T`` as matrix 0 and that of the others as matrix 1. Programs: tile, part and head, tile of keys."""
    bos, n, i_t = _tile_of(tiles, ptr, ROWS)
    i_s = tl.program_id(2) * KEYS
    if i_t >= n or i_s >= n:
        return
    i_h, i_part = tl.program_id(1) % HEADS, tl.program_id(1) // HEADS
    o_q, o_k = i_t + tl.arange(0, ROWS), i_s + tl.arange(0, KEYS)
    p_a, p_b = a, b
    if i_part > 0:
        p_a, p_b = other_a, other_b
    o_x = (bos * HEADS + i_h) * WIDTH
    b_ab = SCALE * _product(
        p_a + o_x, HEADS * WIDTH, 1, p_b + o_x, 1, HEADS * WIDTH, o_q, n, o_k, n, WIDTH, WIDTH, DOT, ACC, CHUNK
    )  # fmt: skip
    p_line = matrices + (num_rows.to(tl.int64) * tl.program_id(1) + bos) * stride
    tl.store(p_line + o_q[:, None] * stride + o_k[None, :], b_ab, mask=(o_q < n)[:, None] & (o_k < stride)[None, :])


@triton.jit(do_not_specialize=["num_rows"])
def weighted_rows(
    weights, other_weights, x, other_x, ptr, tiles, out, other_out, num_rows, stride,
    SCALE: tl.constexpr, TURNED: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """``SCALE W x`` of a matrix W and rows x, ``SCALE W^T x`` if turned. Programs: tile, part and head, columns."""
    bos, n, i_t = _tile_of(tiles, ptr, ROWS)
    if i_t >= n:
        return
    i_h, i_part = tl.program_id(1) % HEADS, tl.program_id(1) // HEADS
    o_row, o_c = i_t + tl.arange(0, ROWS), tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    p_w, p_x, p_out = weights, x, out
    if i_part > 0:
        p_w, p_x, p_out = other_weights, other_x, other_out
    o_x = (bos * HEADS + i_h) * WIDTH
    p_w += (num_rows.to(tl.int64) * i_h + bos) * stride
    if TURNED:
        b_out = _product(p_w, 1, stride, p_x + o_x, HEADS * WIDTH, 1, o_row, stride, o_c, WIDTH, n, n, DOT, ACC, CHUNK)
    else:
        b_out = _product(p_w, stride, 1, p_x + o_x, HEADS * WIDTH, 1, o_row, n, o_c, WIDTH, n, stride, DOT, ACC, CHUNK)
    o_out = o_row[:, None] * (HEADS * WIDTH) + o_c[None, :]
    m_out = (o_row < n)[:, None] & (o_c < WIDTH)[None, :]
    tl.store(p_out + o_x + o_out, (SCALE * b_out).to(out.dtype.element_ty), mask=m_out)


@triton.jit
def _solve(
    matrices, state, bos, n, o_q, i_h, b_lam, num_rows, stride, seed,
    INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """:func:`solve_rows` of graphs of at most KEYS nodes."""
    o_k = tl.arange(0, KEYS).to(tl.int64)
    line, plane = num_rows.to(tl.int64) * i_h + bos, num_rows.to(tl.int64) * HEADS
    p_pair = matrices + (line + o_q)[:, None] * stride + o_k[None, :]
    m_pair, m_k = (o_q < n)[:, None] & (o_k < stride)[None, :], (o_k < n)[None, :]
    b_s = tl.where(m_k, tl.load(p_pair, mask=m_pair, other=0.0), 0.0)
    b_t = tl.where(m_k, tl.load(p_pair + plane * stride, mask=m_pair, other=0.0), 0.0)
    b_z = solve_whole(
        b_s, b_t, state + line, o_q, o_k, n, plane, bos * HEADS + i_h, b_lam, seed,
        INV_ALPHA, LIMIT, P, KEEP, HEADS, ACC, ROWS,
    )  # fmt: skip
    tl.store(p_pair, tl.where(m_k, b_z, 0.0), mask=m_pair)


@triton.jit(do_not_specialize=["num_rows"])
def solve_rows(
    lam, ptr, tiles, matrices, state, num_rows, stride, seed,
    INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    """Puts the flows, after dropout, in the place of s; matrix 1 has t. Graphs have at most MOST nodes."""
    i_g, bos, n, o_q = locate(tiles, ptr, ROWS)
    if first_of_tile(tiles) >= n:
        return
    i_h = tl.program_id(1)
    b_lam = tl.load(lam + i_g)
    if n <= MOST // 4:
        _solve(
            matrices, state, bos, n, o_q, i_h, b_lam, num_rows, stride, seed,
            INV_ALPHA, LIMIT, P, KEEP, HEADS, ACC, ROWS, MOST // 4,
        )  # fmt: skip
    elif n <= MOST // 2:
        _solve(
            matrices, state, bos, n, o_q, i_h, b_lam, num_rows, stride, seed,
            INV_ALPHA, LIMIT, P, KEEP, HEADS, ACC, ROWS, MOST // 2,
        )  # fmt: skip
    else:
        _solve(
            matrices, state, bos, n, o_q, i_h, b_lam, num_rows, stride, seed,
            INV_ALPHA, LIMIT, P, KEEP, HEADS, ACC, ROWS, MOST,
        )  # fmt: skip


@triton.jit
def _differentiate(
    matrices, state, grad_lam, bos, n, o_q, i_h, b_lam, num_rows, stride, seed,
    INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr,
    HEADS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """:func:`gradient_rows` of graphs of at most KEYS nodes."""
    o_k = tl.arange(0, KEYS).to(tl.int64)
    line, plane = num_rows.to(tl.int64) * i_h + bos, num_rows.to(tl.int64) * HEADS
    p_pair = matrices + (line + o_q)[:, None] * stride + o_k[None, :]
    p_t, p_dz = p_pair + plane * stride, p_pair + 2 * plane * stride
    m_pair, m_k = (o_q < n)[:, None] & (o_k < stride)[None, :], (o_k < n)[None, :]
    b_s = tl.where(m_k, tl.load(p_pair, mask=m_pair, other=0.0), 0.0)
    b_t = tl.where(m_k, tl.load(p_t, mask=m_pair, other=0.0), 0.0)
    b_dz = tl.where(m_k, tl.load(p_dz, mask=m_pair, other=0.0), 0.0)
    b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key = load_state(state + line, o_q, n, plane)
    b_keep = tl.full([o_q.shape[0], KEYS], 1.0, dtype=b_s.dtype)
    if P > 0.0:
        b_keep = tl.where(kept(seed, (bos + o_q) * HEADS + i_h, 0, P, KEYS), b_keep * KEEP, 0.0)
    b_dz *= b_keep
    m_ref = o_k[None, :] == b_key[:, None]
    b_unit = b_lam * b_phi_ref
    # [ROWS, KEYS]
    # Both passes have the scores from one program: none differ by the order of products.
    b_w, b_grown, b_low = pair_weights(
        b_s, b_t, b_top[:, None], b_t_ref[:, None], b_unit[:, None], b_delta[:, None], m_ref, LIMIT, TIE=0.0
    )
    b_w = tl.where(m_k, b_w, 0.0)
    b_w_ref, b_g_ref, b_w_sum, b_wg_sum, b_phi_sum, b_phi_g_sum, b_excess_sum, b_excess_g_sum = sums_of_pairs(
        b_w, b_low, b_dz, b_phi_ref[:, None], m_ref
    )
    # [ROWS]
    b_shift, b_p_sum, b_q_sum = row_sums(
        b_w_ref, b_g_ref, b_w_sum, b_wg_sum, b_phi_sum, b_phi_g_sum, b_excess_sum, b_excess_g_sum,
        b_lam, b_log_kappa, b_phi_ref, b_delta, INV_ALPHA,
    )  # fmt: skip
    tl.store(grad_lam + line + o_q, -b_q_sum, mask=o_q < n)
    b_q_ref = reference_part(b_q_sum, b_phi_ref, b_log_kappa)
    # [ROWS, KEYS]
    b_z, b_ds, b_dt = score_gradients(
        b_s, b_w, b_grown, b_low, b_dz, m_ref, b_top[:, None], b_log_kappa[:, None], b_unit[:, None],
        b_delta[:, None], b_g_ref[:, None], b_shift[:, None], b_p_sum[:, None], b_q_ref[:, None], b_lam,
    )  # fmt: skip
    tl.store(p_pair, tl.where(m_k, b_ds, 0.0), mask=m_pair)
    tl.store(p_t, tl.where(m_k, b_dt, 0.0), mask=m_pair)
    tl.store(p_dz, b_z * b_keep, mask=m_pair)


@triton.jit(do_not_specialize=["num_rows"])
def gradient_rows(
    lam, ptr, tiles, matrices, state, grad_lam, num_rows, stride, seed,
    INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr,
    HEADS: tl.constexpr, ROWS: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    """Puts gradients of s and t in their places and flows, after dropout, in that of their gradients (matrix 2)."""
    i_g, bos, n, o_q = locate(tiles, ptr, ROWS)
    if first_of_tile(tiles) >= n:
        return
    i_h = tl.program_id(1)
    b_lam = tl.load(lam + i_g)
    if n <= MOST // 4:
        _differentiate(
            matrices, state, grad_lam, bos, n, o_q, i_h, b_lam, num_rows, stride, seed,
            INV_ALPHA, LIMIT, P, KEEP, HEADS, MOST // 4,
        )  # fmt: skip
    elif n <= MOST // 2:
        _differentiate(
            matrices, state, grad_lam, bos, n, o_q, i_h, b_lam, num_rows, stride, seed,
            INV_ALPHA, LIMIT, P, KEEP, HEADS, MOST // 2,
        )  # fmt: skip
    else:
        _differentiate(
            matrices, state, grad_lam, bos, n, o_q, i_h, b_lam, num_rows, stride, seed,
            INV_ALPHA, LIMIT, P, KEEP, HEADS, MOST,
        )  # fmt: skip
