"""Triton kernels of direct circular convolutions of small graphs. Prefixes of names: ``ops/gpu_tiles.py``.

``tap_ptr`` is the first row of the filter of every graph (of every distinct size in :func:`taps_gradient`). ``s_`` are
distances between rows in memory: tensors may be parts of wider ones.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import locate

# Rows that are under way from memory together.
_STEPS = tl.constexpr(8)


@triton.jit
def load_row(x, first, i, n, s_x, o_c, WIDTH: tl.constexpr, ACC: tl.constexpr):
    """[SPAN] channels of row i of the n rows from ``first`` on; 0 behind them."""
    return tl.load(x + (first + i) * s_x + o_c, mask=o_c < tl.where(i < n, WIDTH, 0), other=0.0).to(ACC)


@triton.jit
def load_turned(x, first, o_t, n, s_x, o_c, WIDTH: tl.constexpr, ACC: tl.constexpr):
    """[ROWS, SPAN] rows ``o_t`` modulo n, for -n <= o_t < n, of the n rows from ``first`` on."""
    o_x = first + tl.where(o_t < 0, o_t + n, o_t)
    m_x = ((o_t >= -n) & (o_t < n))[:, None] & (o_c < WIDTH)[None, :]
    return tl.load(x + o_x[:, None] * s_x + o_c[None, :], mask=m_x, other=0.0).to(ACC)


@triton.jit
def rows_of(x, bos, o_t, n, s_x, o_c, WIDTH: tl.constexpr):
    """([ROWS, SPAN] pointers to rows of a graph, which of them exist)."""
    return x + (bos + o_t)[:, None] * s_x + o_c[None, :], (o_t < n)[:, None] & (o_c < WIDTH)[None, :]


@triton.jit
def circular_conv_forward(
    u, taps, gate, ptr, tap_ptr, tiles, out, s_u, s_taps, s_gate,
    GATED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Some rows and channels of the output of a graph."""
    i_g, bos, n, o_t = locate(tiles, ptr, ROWS)
    first, o_c = tl.load(tap_ptr + i_g), tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    # [ROWS, SPAN]
    b_out = tl.zeros([ROWS, SPAN], dtype=ACC)
    for i_s in range(0, n, _STEPS):
        for i in tl.static_range(_STEPS):
            b_u = load_row(u, bos, i_s + i, n, s_u, o_c, WIDTH, ACC)
            b_out += b_u[None, :] * load_turned(taps, first, o_t - i_s - i, n, s_taps, o_c, WIDTH, ACC)
    if GATED:
        p_gate, m_gate = rows_of(gate, bos, o_t, n, s_gate, o_c, WIDTH)
        b_out *= tl.load(p_gate, mask=m_gate, other=0.0).to(ACC)
    p_out, m_out = rows_of(out, bos, o_t, n, WIDTH, o_c, WIDTH)
    tl.store(p_out, b_out.to(out.dtype.element_ty), mask=m_out)


@triton.jit
def rows_gradient(
    u, taps, gate, grad, ptr, tap_ptr, tiles, du, dgate, s_u, s_taps, s_gate, s_grad,
    GATED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of some rows and channels of a graph, and of its gate, for which the output is computed again."""
    i_g, bos, n, o_t = locate(tiles, ptr, ROWS)
    first, o_c = tl.load(tap_ptr + i_g), tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    # [ROWS, SPAN]
    b_du, b_out = tl.zeros([ROWS, SPAN], dtype=ACC), tl.zeros([ROWS, SPAN], dtype=ACC)
    for i_s in range(0, n, _STEPS):
        for i in tl.static_range(_STEPS):
            b_grad = load_row(grad, bos, i_s + i, n, s_grad, o_c, WIDTH, ACC)
            if GATED:
                b_grad *= load_row(gate, bos, i_s + i, n, s_gate, o_c, WIDTH, ACC)
                b_u = load_row(u, bos, i_s + i, n, s_u, o_c, WIDTH, ACC)
                b_out += b_u[None, :] * load_turned(taps, first, o_t - i_s - i, n, s_taps, o_c, WIDTH, ACC)
            b_du += b_grad[None, :] * load_turned(taps, first, i_s + i - o_t, n, s_taps, o_c, WIDTH, ACC)
    p_du, m_du = rows_of(du, bos, o_t, n, WIDTH, o_c, WIDTH)
    tl.store(p_du, b_du.to(du.dtype.element_ty), mask=m_du)
    if GATED:
        p_grad, _m_grad = rows_of(grad, bos, o_t, n, s_grad, o_c, WIDTH)
        b_out *= tl.load(p_grad, mask=m_du, other=0.0).to(ACC)
        p_gate, _m_gate = rows_of(dgate, bos, o_t, n, WIDTH, o_c, WIDTH)
        tl.store(p_gate, b_out.to(dgate.dtype.element_ty), mask=m_du)


@triton.jit
def taps_gradient(
    u, gate, grad, ptr, tap_ptr, tiles, size_ptr, graphs, dtaps, s_u, s_gate, s_grad,
    GATED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradient of some taps and channels of the filter of one size; its graphs are added in their order.

    ``graphs`` are the graphs of every size, ``size_ptr`` the first of every size.
    """
    i_s, first, n, o_k = locate(tiles, tap_ptr, ROWS)
    o_c = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    # [ROWS, SPAN]
    b_dtaps = tl.zeros([ROWS, SPAN], dtype=ACC)
    for i_g in range(tl.load(size_ptr + i_s), tl.load(size_ptr + i_s + 1)):
        bos = tl.load(ptr + tl.load(graphs + i_g))
        for i_t in range(0, n, _STEPS):
            for i in tl.static_range(_STEPS):
                b_grad = load_row(grad, bos, i_t + i, n, s_grad, o_c, WIDTH, ACC)
                if GATED:
                    b_grad *= load_row(gate, bos, i_t + i, n, s_gate, o_c, WIDTH, ACC)
                b_dtaps += b_grad[None, :] * load_turned(u, bos, i_t + i - o_k, n, s_u, o_c, WIDTH, ACC)
    p_taps, m_taps = rows_of(dtaps, first, o_k, n, WIDTH, o_c, WIDTH)
    tl.store(p_taps, b_dtaps.to(dtaps.dtype.element_ty), mask=m_taps)
