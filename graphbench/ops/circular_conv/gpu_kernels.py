"""Triton kernels of direct circular convolutions of small graphs. Prefixes of names: ``ops/gpu_tiles.py``.

``tap_ptr`` is the first row of the filter of every graph (of every distinct size in :func:`taps_gradient`). ``s_`` are
distances between rows in memory: tensors may be parts of wider ones. The terms of a sum are dealt out to PARTS sums,
which are added at the end, and each of these has STEPS terms under way from memory together.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import locate


@triton.jit
def load_terms(p_x, o_i, n, s_x, o_c, WIDTH: tl.constexpr, ACC: tl.constexpr):
    """[PARTS, 1, SPAN] rows ``o_i`` [PARTS, 1, 1] of the n rows from ``p_x`` on; 0 behind them."""
    o_c = o_c[None, None, :]
    return tl.load(p_x + o_i * s_x + o_c, mask=(o_i < n) & (o_c < WIDTH), other=0.0).to(ACC)


@triton.jit
def load_turned(p_x, o_t, n, s_x, o_c, WIDTH: tl.constexpr, ACC: tl.constexpr):
    """[PARTS, ROWS, SPAN] rows ``o_t`` [PARTS, ROWS, 1] modulo n, for -n <= o_t < n, of the n rows from ``p_x`` on."""
    o_x, o_c = tl.where(o_t < 0, o_t + n, o_t), o_c[None, None, :]
    return tl.load(p_x + o_x * s_x + o_c, mask=(o_x >= 0) & (o_x < n) & (o_c < WIDTH), other=0.0).to(ACC)


@triton.jit
def rows_of(x, bos, o_t, n, s_x, o_c, WIDTH: tl.constexpr):
    """([ROWS, SPAN] pointers to rows of a graph, which of them exist)."""
    return x + bos * s_x + o_t[:, None] * s_x + o_c[None, :], (o_t < n)[:, None] & (o_c < WIDTH)[None, :]


@triton.jit
def circular_conv_forward(
    u, taps, gate, ptr, tap_ptr, tiles, out, s_u, s_taps, s_gate,
    GATED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr,
    STEPS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Some rows and channels of the output of a graph."""
    i_g, bos, n, o_t = locate(tiles, ptr, ROWS)
    o_c, o_part = tl.program_id(1) * SPAN + tl.arange(0, SPAN), tl.arange(0, PARTS)[:, None, None]
    p_u, p_taps = u + bos * s_u, taps + tl.load(tap_ptr + i_g) * s_taps
    b_sums = tl.zeros([PARTS, ROWS, SPAN], dtype=ACC)
    for i_s in range(0, n, PARTS * STEPS):
        for i in tl.static_range(STEPS):
            o_s = i_s + i * PARTS + o_part
            b_u = load_terms(p_u, o_s, n, s_u, o_c, WIDTH, ACC)
            b_sums += b_u * load_turned(p_taps, o_t[None, :, None] - o_s, n, s_taps, o_c, WIDTH, ACC)
    # [ROWS, SPAN]
    b_out = tl.sum(b_sums, 0)
    if GATED:
        p_gate, m_gate = rows_of(gate, bos, o_t, n, s_gate, o_c, WIDTH)
        b_out *= tl.load(p_gate, mask=m_gate, other=0.0).to(ACC)
    p_out, m_out = rows_of(out, bos, o_t, n, WIDTH, o_c, WIDTH)
    tl.store(p_out, b_out.to(out.dtype.element_ty), mask=m_out)


@triton.jit
def rows_gradient(
    u, taps, gate, grad, ptr, tap_ptr, tiles, du, dgate, s_u, s_taps, s_gate, s_grad,
    GATED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr,
    STEPS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of some rows and channels of a graph, and of its gate, for which the output is computed again."""
    i_g, bos, n, o_t = locate(tiles, ptr, ROWS)
    o_c, o_part = tl.program_id(1) * SPAN + tl.arange(0, SPAN), tl.arange(0, PARTS)[:, None, None]
    p_u, p_taps = u + bos * s_u, taps + tl.load(tap_ptr + i_g) * s_taps
    p_grad, p_gate = grad + bos * s_grad, gate + bos * s_gate
    b_sums, b_again = tl.zeros([PARTS, ROWS, SPAN], dtype=ACC), tl.zeros([PARTS, ROWS, SPAN], dtype=ACC)
    for i_s in range(0, n, PARTS * STEPS):
        for i in tl.static_range(STEPS):
            o_s = i_s + i * PARTS + o_part
            b_grad = load_terms(p_grad, o_s, n, s_grad, o_c, WIDTH, ACC)
            o_turn = o_t[None, :, None] - o_s
            if GATED:
                b_grad *= load_terms(p_gate, o_s, n, s_gate, o_c, WIDTH, ACC)
                b_u = load_terms(p_u, o_s, n, s_u, o_c, WIDTH, ACC)
                b_again += b_u * load_turned(p_taps, o_turn, n, s_taps, o_c, WIDTH, ACC)
            b_sums += b_grad * load_turned(p_taps, -o_turn, n, s_taps, o_c, WIDTH, ACC)
    p_du, m_du = rows_of(du, bos, o_t, n, WIDTH, o_c, WIDTH)
    tl.store(p_du, tl.sum(b_sums, 0).to(du.dtype.element_ty), mask=m_du)
    if GATED:
        p_rows, _m_rows = rows_of(grad, bos, o_t, n, s_grad, o_c, WIDTH)
        b_dgate = tl.sum(b_again, 0) * tl.load(p_rows, mask=m_du, other=0.0).to(ACC)
        p_dgate, _m_dgate = rows_of(dgate, bos, o_t, n, WIDTH, o_c, WIDTH)
        tl.store(p_dgate, b_dgate.to(dgate.dtype.element_ty), mask=m_du)


@triton.jit
def taps_gradient(
    u, gate, grad, ptr, tap_ptr, tiles, size_ptr, graphs, dtaps, s_u, s_gate, s_grad,
    GATED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr,
    STEPS: tl.constexpr, GRAPHS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradient of some taps and channels of the filter of one size; its graphs are added in a fixed order.

    ``graphs`` are the graphs of every size, ``size_ptr`` the first of every size. GRAPHS of them are summed at a time,
    the terms of each in PARTS.
    """
    i_s, first, n, o_k = locate(tiles, tap_ptr, ROWS)
    o_c, o_sum = tl.program_id(1) * SPAN + tl.arange(0, SPAN), tl.arange(0, GRAPHS * PARTS)[:, None, None]
    b_sums, end = tl.zeros([GRAPHS * PARTS, ROWS, SPAN], dtype=ACC), tl.load(size_ptr + i_s + 1)
    for i_first in range(tl.load(size_ptr + i_s), end, GRAPHS):
        # [GRAPHS * PARTS, 1, 1]
        o_g = i_first + o_sum // PARTS
        b_graph = tl.load(graphs + o_g, mask=o_g < end, other=0)
        b_bos, b_n = tl.load(ptr + b_graph), tl.where(o_g < end, n, 0)
        p_u, p_gate, p_grad = u + b_bos * s_u, gate + b_bos * s_gate, grad + b_bos * s_grad
        for i_t in range(0, n, PARTS * STEPS):
            for i in tl.static_range(STEPS):
                o_t = i_t + i * PARTS + o_sum % PARTS
                b_grad = load_terms(p_grad, o_t, b_n, s_grad, o_c, WIDTH, ACC)
                if GATED:
                    b_grad *= load_terms(p_gate, o_t, b_n, s_gate, o_c, WIDTH, ACC)
                o_turn = o_t - o_k[None, :, None]
                b_sums += b_grad * load_turned(p_u, o_turn, b_n, s_u, o_c, WIDTH, ACC)
    p_taps, m_taps = rows_of(dtaps, first, o_k, n, WIDTH, o_c, WIDTH)
    tl.store(p_taps, tl.sum(b_sums, 0).to(dtaps.dtype.element_ty), mask=m_taps)
