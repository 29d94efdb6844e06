"""Triton kernels of linear attention. Notation and equations: README, "On a GPU"; prefixes: ``ops/gpu_tiles.py``.

A program handles rows of one graph and head. Rows of x are (rows, heads, width), numbers per row (rows, heads),
matrices (graphs, heads, E + 1, D), whose last row belongs to the sum of weights. Everything is computed in ``ACC``,
whatever it is stored in. Rows are counted through the batch here; ``eos`` is the end of the graph.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dot_as
from graphbench.ops.linear_attention.norms import FLOOR

_FLOOR = tl.constexpr(FLOOR)


@triton.jit
def locate(tiles, ptr):
    """(graph, first row of the tile, end of the graph)."""
    i_g = tl.load(tiles + 2 * tl.program_id(0))
    bos = tl.load(ptr + i_g)
    return i_g, bos + tl.load(tiles + 2 * tl.program_id(0) + 1), tl.load(ptr + i_g + 1)


@triton.jit
def block_of(o_r, eos, i_h, i_c, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """[rows, SPAN] offsets of columns ``i_c .. i_c + SPAN`` of some rows of one head, and which of them exist."""
    o_c = i_c + tl.arange(0, SPAN)
    return (o_r[:, None] * HEADS + i_h) * WIDTH + o_c[None, :], (o_r < eos)[:, None] & (o_c < WIDTH)[None, :]


@triton.jit
def load_block(x, o_r, eos, i_h, i_c, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ACC: tl.constexpr):
    """[rows, SPAN] entries at these offsets; 0 where there are none."""
    o_x, m_x = block_of(o_r, eos, i_h, i_c, HEADS, WIDTH, SPAN)
    return tl.load(x + o_x, mask=m_x, other=0.0).to(ACC)


@triton.jit
def load_vector(p_x, i_c, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """[1, SPAN] entries from ``i_c`` on of a vector; 0 beyond ``WIDTH``."""
    o_c = i_c + tl.arange(0, SPAN)
    return tl.load(p_x + o_c, mask=o_c < WIDTH, other=0.0)[None, :]


@triton.jit
def load_matrix(p_x, i_r, i_c, E: tl.constexpr, D: tl.constexpr, COLS: tl.constexpr):
    """[COLS, COLS] entries from (i_r, i_c) on of an (E + 1, D) matrix without its last row."""
    o_r, o_c = i_r + tl.arange(0, COLS), i_c + tl.arange(0, COLS)
    m_x = (o_r < E)[:, None] & (o_c < D)[None, :]
    return tl.load(p_x + o_r[:, None] * D + o_c[None, :], mask=m_x, other=0.0)


@triton.jit
def load_per_row(x, o_r, eos, i_h, HEADS: tl.constexpr):
    """[rows] numbers of one head."""
    return tl.load(x + o_r * HEADS + i_h, mask=o_r < eos, other=0.0)


@triton.jit
def add_context(
    b_acc, x, p_context, i_c, o_r, eos, i_h,
    HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr, COLS: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """[rows, COLS] ``acc`` plus columns ``i_c .. i_c + COLS`` of ``x context^T``. Short products need few registers."""
    for i_d in range(0, D, COLS):
        b_x = load_block(x, o_r, eos, i_h, i_d, HEADS, D, COLS, ACC)
        b_acc += dot_as(b_x, tl.trans(load_matrix(p_context, i_c, i_d, E, D, COLS)), DOT, ACC)
    return b_acc


@triton.jit
def totals(
    q, k, v, ptr, tiles, out,
    WIDTH: tl.constexpr, V_WIDTH: tl.constexpr, COLS: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """(2 + V_WIDTH,) sums over CHUNK rows: squares of q, squares of k, v; all heads side by side."""
    _i_g, i_t, eos = locate(tiles, ptr)
    eos = tl.minimum(eos, i_t + CHUNK)
    out += tl.program_id(0).to(tl.int64) * (2 + V_WIDTH)
    # [ROWS, COLS]
    b_q_square, b_k_square = tl.zeros([ROWS, COLS], dtype=ACC), tl.zeros([ROWS, COLS], dtype=ACC)
    for i_r in range(i_t, eos, ROWS):
        o_r = i_r + tl.arange(0, ROWS)
        for i_c in range(0, WIDTH, COLS):
            b_q = load_block(q, o_r, eos, 0, i_c, 1, WIDTH, COLS, ACC)
            b_k = load_block(k, o_r, eos, 0, i_c, 1, WIDTH, COLS, ACC)
            b_q_square += b_q * b_q
            b_k_square += b_k * b_k
    tl.store(out, tl.sum(tl.sum(b_q_square, 1), 0))
    tl.store(out + 1, tl.sum(tl.sum(b_k_square, 1), 0))
    for i_c in range(0, V_WIDTH, COLS):
        b_v_sum = tl.zeros([COLS], dtype=ACC)
        for i_r in range(i_t, eos, ROWS):
            o_r = i_r + tl.arange(0, ROWS)
            b_v_sum += tl.sum(load_block(v, o_r, eos, 0, i_c, 1, V_WIDTH, COLS, ACC), 0)
        o_c = i_c + tl.arange(0, COLS)
        tl.store(out + 2 + o_c, b_v_sum, mask=o_c < V_WIDTH)


@triton.jit
def cross(
    a, b, centre, last, ptr, tiles, out,
    CENTRED: tl.constexpr, HEADS: tl.constexpr, B_HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    SPAN: tl.constexpr, COLS: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """(E + 1, D) sums over CHUNK rows: ``[b - centre | 1]^T a``, or ``[b | last]^T a`` where not CENTRED."""
    i_g, i_t, eos = locate(tiles, ptr)
    i_h, i_hb, i_c = tl.program_id(1), tl.program_id(1) % B_HEADS, tl.program_id(2) * COLS
    eos = tl.minimum(eos, i_t + CHUNK)
    # [COLS, SPAN], [SPAN]
    b_cross, b_last = tl.zeros([COLS, SPAN], dtype=ACC), tl.zeros([SPAN], dtype=ACC)
    # [1, COLS]
    b_centre = load_vector(centre + (i_g * B_HEADS + i_hb) * E, i_c, E, COLS)
    for i_r in range(i_t, eos, ROWS):
        o_r = i_r + tl.arange(0, ROWS)
        # [ROWS, SPAN], [ROWS, COLS]
        b_a = load_block(a, o_r, eos, i_h, 0, HEADS, D, SPAN, ACC)
        b_b = load_block(b, o_r, eos, i_hb, i_c, B_HEADS, E, COLS, ACC)
        if CENTRED:
            b_b -= b_centre  # rows beyond the end meet zeros of a
            b_last += tl.sum(b_a, 0)
        else:
            b_last += tl.sum(b_a * load_per_row(last, o_r, eos, i_h, HEADS)[:, None], 0)
        # In pieces of ROWS: one long accumulation loses digits that the gradients need.
        b_cross += dot_as(tl.trans(b_b), b_a, DOT, ACC)
    out += (tl.program_id(0).to(tl.int64) * HEADS + i_h) * (E + 1) * D
    o_x, m_x = block_of(i_c + tl.arange(0, COLS), E, 0, 0, 1, D, SPAN)
    tl.store(out + o_x, b_cross, mask=m_x)
    if tl.program_id(2) == 0:
        o_d = tl.arange(0, SPAN)
        tl.store(out + E * D + o_d, b_last, mask=o_d < D)


@triton.jit
def attend(
    q, v, centre, context, bound, grad, ptr, tiles, out, slope, bound_grad,
    BASE: tl.constexpr, FORWARD: tl.constexpr, HEADS: tl.constexpr, V_HEADS: tl.constexpr, D: tl.constexpr,
    E: tl.constexpr, COLS: tl.constexpr, ROWS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Forward: the output. Backward: p = grad / denominator, and gradients of the sum of weights and of its bound."""
    i_g, i_t, eos = locate(tiles, ptr)
    i_h, i_hv = tl.program_id(1), tl.program_id(1) % V_HEADS
    o_r = i_t + tl.arange(0, ROWS)
    m_r = o_r < eos
    p_context = context + (i_g * HEADS + i_h) * (E + 1) * D
    # [ROWS]
    b_weight, b_along, b_common = tl.zeros([ROWS], ACC), tl.zeros([ROWS], ACC), tl.zeros([ROWS], ACC)
    for i_c in range(0, D, COLS):
        b_q = load_block(q, o_r, eos, i_h, i_c, HEADS, D, COLS, ACC)
        b_weight += tl.sum(b_q * load_vector(p_context + E * D, i_c, D, COLS), 1)
    b_fraction = 1.0  # what the weights of a row sum to
    if BASE == "none":
        b_least = _FLOOR * load_per_row(bound, o_r, eos, i_h, HEADS)
        b_sign = tl.where(b_weight < 0.0, -1.0, 1.0).to(ACC)
        b_total = b_sign * tl.maximum(tl.abs(b_weight), b_least)
        b_total = tl.where(b_total == 0.0, 1.0, b_total)
        b_fraction = (b_weight / b_total)[:, None]
    else:
        b_total = 1.0 + b_weight
    for i_c in range(0, E, COLS):
        b_centre = load_vector(centre + (i_g * V_HEADS + i_hv) * E, i_c, E, COLS)
        # [ROWS, COLS]
        b_rest = tl.zeros([ROWS, COLS], dtype=ACC)  # the mean of v - centre, which "uniform" adds, is zero
        if BASE == "self":
            b_rest += load_block(v, o_r, eos, i_hv, i_c, V_HEADS, E, COLS, ACC) - b_centre
        b_rest = add_context(b_rest, q, p_context, i_c, o_r, eos, i_h, HEADS, D, E, COLS, DOT, ACC) / b_total[:, None]
        o_x, m_x = block_of(o_r, eos, i_h, i_c, HEADS, E, COLS)
        if FORWARD:
            tl.store(out + o_x, (b_centre * b_fraction + b_rest).to(out.dtype.element_ty), mask=m_x)
        else:
            b_p = tl.load(grad + o_x, mask=m_x, other=0.0).to(ACC) / b_total[:, None]
            tl.store(out + o_x, b_p, mask=m_x)
            b_along += tl.sum(b_p * b_rest, 1)
            b_common += tl.sum(b_p * b_centre, 1)
    if not FORWARD:
        b_slope = -b_along
        if BASE == "none":
            m_floor = tl.abs(b_weight) < b_least
            b_bound = tl.where(m_floor, -_FLOOR * b_sign * (b_common * b_weight / b_total + b_along), 0.0)
            tl.store(bound_grad + o_r * HEADS + i_h, b_bound, mask=m_r)
            b_slope = tl.where(m_floor | (b_weight == 0.0), b_common, b_slope)
        tl.store(slope + o_r * HEADS + i_h, b_slope, mask=m_r)


@triton.jit
def row_gradient(
    x, b, centre, last, gradient, pull, ptr, tiles, out,
    CENTRED: tl.constexpr, HEADS: tl.constexpr, B_HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    COLS: tl.constexpr, ROWS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradient of q or k: ``[b | last] gradient - pull x``, with b and last as in :func:`cross`.

    ``pull`` is (graphs, 2): of q and, where CENTRED, of k.
    """
    i_g, i_t, eos = locate(tiles, ptr)
    i_h, i_hb = tl.program_id(1), tl.program_id(1) % B_HEADS
    o_r = i_t + tl.arange(0, ROWS)
    p_gradient = gradient + (i_g * HEADS + i_h) * (E + 1) * D
    b_pull = tl.load(pull + 2 * i_g + (1 if CENTRED else 0))
    for i_c in range(0, D, COLS):
        # [ROWS, COLS]
        b_dx = tl.zeros([ROWS, COLS], dtype=ACC) + load_vector(p_gradient + E * D, i_c, D, COLS)
        if not CENTRED:
            b_dx *= load_per_row(last, o_r, eos, i_h, HEADS)[:, None]
        for i_e in range(0, E, COLS):
            b_b = load_block(b, o_r, eos, i_hb, i_e, B_HEADS, E, COLS, ACC)
            if CENTRED:
                b_b -= load_vector(centre + (i_g * B_HEADS + i_hb) * E, i_e, E, COLS)
            b_dx += dot_as(b_b, load_matrix(p_gradient, i_e, i_c, E, D, COLS), DOT, ACC)
        b_dx -= b_pull * load_block(x, o_r, eos, i_h, i_c, HEADS, D, COLS, ACC)
        o_x, m_x = block_of(o_r, eos, i_h, i_c, HEADS, D, COLS)
        tl.store(out + o_x, b_dx.to(out.dtype.element_ty), mask=m_x)


@triton.jit
def value_gradient(
    k, p, gradient, common, ptr, tiles, out,
    BASE: tl.constexpr, HEADS: tl.constexpr, V_HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    COLS: tl.constexpr, ROWS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradient of v: ``k gradient^T`` and what the base adds, summed over the heads that share v."""
    i_g, i_t, eos = locate(tiles, ptr)
    i_hv = tl.program_id(1)
    o_r = i_t + tl.arange(0, ROWS)
    for i_c in range(0, E, COLS):
        # [ROWS, COLS]
        b_dv = tl.zeros([ROWS, COLS], dtype=ACC)
        if BASE == "uniform":
            b_dv += load_vector(common + (i_g * V_HEADS + i_hv) * E, i_c, E, COLS)
        for i_h in range(i_hv, HEADS, V_HEADS):
            p_gradient = gradient + (i_g * HEADS + i_h) * (E + 1) * D
            b_dv = add_context(b_dv, k, p_gradient, i_c, o_r, eos, i_h, HEADS, D, E, COLS, DOT, ACC)
            if BASE == "self":
                b_dv += load_block(p, o_r, eos, i_h, i_c, HEADS, E, COLS, ACC)
        o_x, m_x = block_of(o_r, eos, i_hv, i_c, V_HEADS, E, COLS)
        tl.store(out + o_x, b_dv.to(out.dtype.element_ty), mask=m_x)
