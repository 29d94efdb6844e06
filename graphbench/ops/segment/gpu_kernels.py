"""Triton kernels of sums of rows, by graph or by bag. Prefixes of names: ``ops/gpu_tiles.py``; equations: README."""

import triton
import triton.language as tl


@triton.jit
def graph_of_program(ptr, MEAN: tl.constexpr, ACC: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """(graph, its first row, its rows, factor of the sum, [SPAN] channels, which of them exist)."""
    i_g = tl.program_id(0).to(tl.int64)
    bos = tl.load(ptr + i_g)
    n = tl.load(ptr + i_g + 1) - bos
    factor = tl.full([], 1.0, dtype=ACC)
    if MEAN:
        factor = 1.0 / tl.maximum(n, 1).to(ACC)
    o_c = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    return i_g, bos, n, factor, o_c, o_c < WIDTH


@triton.jit
def sum_rows(
    x, ptr, out, s_x,
    MEAN: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Sum or mean of one graph: every lane adds each ROWS-th row, and then the lanes are added."""
    i_g, bos, n, factor, o_c, m_c = graph_of_program(ptr, MEAN, ACC, WIDTH, SPAN)
    # [ROWS, SPAN]
    b_sum = tl.zeros([ROWS, SPAN], dtype=ACC)
    for i_n in range(0, n, ROWS):
        o_n = i_n + tl.arange(0, ROWS)
        p_x = x + (bos + o_n)[:, None] * s_x + o_c[None, :]
        b_sum += tl.load(p_x, mask=(o_n < n)[:, None] & m_c[None, :], other=0.0).to(ACC)
    b_out = tl.sum(b_sum, 0) * factor
    tl.store(out + i_g * WIDTH + o_c, b_out.to(out.dtype.element_ty), mask=m_c)


@triton.jit
def spread_rows(
    grad, ptr, dx, s_grad,
    MEAN: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """The gradient of one graph, for each of its rows."""
    i_g, bos, n, factor, o_c, m_c = graph_of_program(ptr, MEAN, ACC, WIDTH, SPAN)
    b_grad = tl.load(grad + i_g * s_grad + o_c, mask=m_c, other=0.0).to(ACC) * factor
    b_rows = (tl.zeros([ROWS, SPAN], dtype=ACC) + b_grad[None, :]).to(dx.dtype.element_ty)
    for i_n in range(0, n, ROWS):
        o_n = i_n + tl.arange(0, ROWS)
        p_dx = dx + (bos + o_n)[:, None] * WIDTH + o_c[None, :]
        tl.store(p_dx, b_rows, mask=(o_n < n)[:, None] & m_c[None, :])


@triton.jit
def flip_rows(
    x, coin, ptr, out, s_x,
    MEAN: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Rows of one graph, with another sign in the columns whose coin is 0."""
    i_g, bos, n, _factor, o_c, m_c = graph_of_program(ptr, MEAN, ACC, WIDTH, SPAN)
    b_coin = tl.load(coin + i_g * WIDTH + o_c, mask=m_c, other=1)
    for i_n in range(0, n, ROWS):
        o_n = i_n + tl.arange(0, ROWS)
        m_x = (o_n < n)[:, None] & m_c[None, :]
        b_x = tl.load(x + (bos + o_n)[:, None] * s_x + o_c[None, :], mask=m_x, other=0.0)
        b_x = tl.where((b_coin == 0)[None, :], -b_x, b_x).to(out.dtype.element_ty)
        tl.store(out + (bos + o_n)[:, None] * WIDTH + o_c[None, :], b_x, mask=m_x)


@triton.jit
def sum_bag(
    rows, index, ptr, weight, out, s_rows,
    WEIGHTED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Weighted sum of the rows of one bag: every lane adds each ROWS-th of them, and then the lanes are added."""
    i_b = tl.program_id(0).to(tl.int64)
    o_c = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    first = tl.load(ptr + i_b)
    n = tl.load(ptr + i_b + 1) - first
    # [ROWS, SPAN]
    b_sum = tl.zeros([ROWS, SPAN], dtype=ACC)
    for i in range(0, n, ROWS):
        o_i = i + tl.arange(0, ROWS)
        m_i = o_i < n
        b_index = tl.load(index + first + o_i, mask=m_i, other=0)
        p_rows = rows + b_index[:, None] * s_rows + o_c[None, :]
        b_rows = tl.load(p_rows, mask=m_i[:, None] & (o_c < WIDTH)[None, :], other=0.0).to(ACC)
        if WEIGHTED:
            b_rows *= tl.load(weight + first + o_i, mask=m_i, other=0.0).to(ACC)[:, None]
        b_sum += b_rows
    tl.store(out + i_b * WIDTH + o_c, tl.sum(b_sum, 0).to(out.dtype.element_ty), mask=o_c < WIDTH)
