"""Triton kernels of networks of sines. Prefixes of names: ``ops/gpu_tiles.py``; equations: README.

``flat`` are all parameters one after the other: weight (W, E) and bias of the first layer, weight (W, W) and bias of
INNER others, the last weight (C, W) from OUT and the frequencies (W) from FREQUENCY on. ``mapped`` (INNER + 1, M, W) is
what the layers map to before their sine.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dot


@triton.jit
def load_matrix(x, o_r, o_c, m_r, m_c, s_x, ACC: tl.constexpr):
    """[rows, columns] of a matrix whose rows are s_x apart; 0 where there is nothing."""
    return tl.load(x + o_r[:, None] * s_x + o_c[None, :], mask=m_r[:, None] & m_c[None, :], other=0.0).to(ACC)


@triton.jit
def store_matrix(x, b_x, o_r, o_c, m_r, m_c, s_x):
    """Inverse of :func:`load_matrix`."""
    tl.store(x + o_r[:, None] * s_x + o_c[None, :], b_x.to(x.dtype.element_ty), mask=m_r[:, None] & m_c[None, :])


@triton.jit
def _mapped(b_x, b_weight, ACC: tl.constexpr):
    """``x W^T`` in plain fp32: the frequency multiplies its error, larger in three products of 10-bit parts."""
    return tl.dot(b_x, tl.trans(b_weight), input_precision="ieee", out_dtype=ACC)


@triton.jit(do_not_specialize=["num_rows"])
def sine_network_forward(
    z, flat, mapped, out, num_rows,
    E: tl.constexpr, W: tl.constexpr, C: tl.constexpr, INNER: tl.constexpr, OUT: tl.constexpr,
    FREQUENCY: tl.constexpr, SPAN_E: tl.constexpr, SPAN_W: tl.constexpr, SPAN_C: tl.constexpr, ROWS: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Some rows and channels of the output, and by the first channels what the hidden layers of these rows map to."""
    o_n = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    o_e, o_w = tl.arange(0, SPAN_E), tl.arange(0, SPAN_W)
    m_n, m_e, m_w = o_n < num_rows, o_e < E, o_w < W
    i_c = tl.program_id(1) * SPAN_C
    o_c, m_kept = i_c + tl.arange(0, SPAN_C), o_n < tl.where(i_c == 0, num_rows, 0)
    b_frequency = tl.load(flat + FREQUENCY + o_w, mask=m_w, other=0.0).to(ACC)[None, :]
    # [ROWS, SPAN_W]
    b_z = load_matrix(z, o_n, o_e, m_n, m_e, E, ACC)
    b_y = _mapped(b_z, load_matrix(flat, o_w, o_e, m_w, m_e, E, ACC), ACC)
    b_y += tl.load(flat + W * E + o_w, mask=m_w, other=0.0).to(ACC)[None, :]
    for i in tl.static_range(INNER):
        # Asked for before the sines, behind which the product waits for it.
        p_layer = flat + W * E + W + i * (W * W + W)
        b_weight = load_matrix(p_layer, o_w, o_w, m_w, m_w, W, ACC)
        b_bias = tl.load(p_layer + W * W + o_w, mask=m_w, other=0.0).to(ACC)
        store_matrix(mapped + i * num_rows.to(tl.int64) * W, b_y, o_n, o_w, m_kept, m_w, W)
        b_y = _mapped(tl.sin(b_frequency * b_y), b_weight, ACC) + b_bias[None, :]
    b_weight = load_matrix(flat + OUT, o_c, o_w, o_c < C, m_w, W, ACC)
    store_matrix(mapped + INNER * num_rows.to(tl.int64) * W, b_y, o_n, o_w, m_kept, m_w, W)
    b_out = dot(tl.sin(b_frequency * b_y), tl.trans(b_weight), ACC)
    store_matrix(out, b_out, o_n, o_c, m_n, o_c < C, C)


@triton.jit(do_not_specialize=["num_rows", "total"])
def sine_network_backward(
    z, flat, mapped, grad, parts, num_rows, total,
    E: tl.constexpr, W: tl.constexpr, C: tl.constexpr, INNER: tl.constexpr, OUT: tl.constexpr,
    FREQUENCY: tl.constexpr, SPAN_E: tl.constexpr, SPAN_W: tl.constexpr, SPAN_C: tl.constexpr, ROWS: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """The part of some rows in the gradients of all parameters: the last weight's by programs of their own."""
    o_n = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    o_e, o_w = tl.arange(0, SPAN_E), tl.arange(0, SPAN_W)
    m_n, m_e, m_w = o_n < num_rows, o_e < E, o_w < W
    b_frequency = tl.load(flat + FREQUENCY + o_w, mask=m_w, other=0.0).to(ACC)[None, :]
    p_parts, plane = parts + tl.program_id(0).to(tl.int64) * total, num_rows.to(tl.int64) * W
    # [ROWS, SPAN_W]
    b_y = load_matrix(mapped + INNER * plane, o_n, o_w, m_n, m_w, W, ACC)
    if tl.program_id(1) > 0:
        o_c = (tl.program_id(1) - 1) * SPAN_C + tl.arange(0, SPAN_C)
        b_grad = load_matrix(grad, o_n, o_c, m_n, o_c < C, C, ACC)
        b_dlast = dot(tl.trans(b_grad), tl.sin(b_frequency * b_y), ACC)
        store_matrix(p_parts + OUT, b_dlast, o_c, o_w, o_c < C, m_w, W)
    else:
        b_dh, b_dfrequency = tl.zeros([ROWS, SPAN_W], dtype=ACC), tl.zeros([ROWS, SPAN_W], dtype=ACC)
        for i_c in range(0, C, SPAN_C):
            o_c = i_c + tl.arange(0, SPAN_C)
            b_grad = load_matrix(grad, o_n, o_c, m_n, o_c < C, C, ACC)
            b_dh += dot(b_grad, load_matrix(flat + OUT, o_c, o_w, o_c < C, m_w, W, ACC), ACC)
        for i_back in range(0, INNER):
            i = INNER - 1 - i_back
            # Asked for before the cosines, behind which the products wait for it.
            o_layer = W * E + W + i * (W * W + W)
            b_below = load_matrix(mapped + i * plane, o_n, o_w, m_n, m_w, W, ACC)
            b_weight = load_matrix(flat + o_layer, o_w, o_w, m_w, m_w, W, ACC)
            b_slope = b_dh * tl.cos(b_frequency * b_y)
            b_dfrequency += b_slope * b_y
            b_dy, b_y = b_slope * b_frequency, b_below
            # The product that goes on to the layer below comes last: before this one it spilled registers on sm_80.
            b_dweight = dot(tl.trans(b_dy), tl.sin(b_frequency * b_y), ACC)
            store_matrix(p_parts + o_layer, b_dweight, o_w, o_w, m_w, m_w, W)
            tl.store(p_parts + o_layer + W * W + o_w, tl.sum(b_dy, 0), mask=m_w)
            b_dh = dot(b_dy, b_weight, ACC)
        b_z = load_matrix(z, o_n, o_e, m_n, m_e, E, ACC)
        b_slope = b_dh * tl.cos(b_frequency * b_y)
        b_dy = b_slope * b_frequency
        store_matrix(p_parts, dot(tl.trans(b_dy), b_z, ACC), o_w, o_e, m_w, m_e, E)
        tl.store(p_parts + W * E + o_w, tl.sum(b_dy, 0), mask=m_w)
        tl.store(p_parts + FREQUENCY + o_w, tl.sum(b_dfrequency + b_slope * b_y, 0), mask=m_w)
