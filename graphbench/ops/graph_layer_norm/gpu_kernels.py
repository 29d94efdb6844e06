"""Triton kernels of the layer normalisation of graphs, a graph per program. Prefixes of names: ``ops/gpu_tiles.py``."""

import triton
import triton.language as tl


@triton.jit
def locate_graph(ptr):
    """(graph, its first row in the batch, its rows)."""
    i_g = tl.program_id(0).to(tl.int64)
    bos = tl.load(ptr + i_g)
    return i_g, bos, tl.load(ptr + i_g + 1) - bos


@triton.jit
def load_tile(x, bos, i_s, n, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr):
    """([ROWS, SPAN] of a graph, where they lie, which of them exist); 0 where there is nothing."""
    o_n, o_c = i_s + tl.arange(0, ROWS).to(tl.int64), tl.arange(0, SPAN)
    o_x = (bos + o_n)[:, None] * WIDTH + o_c[None, :]
    m_x = (o_n < n)[:, None] & (o_c < WIDTH)[None, :]
    return tl.load(x + o_x, mask=m_x, other=0.0).to(ACC), o_x, m_x


@triton.jit
def graph_layer_norm_forward(
    h, weight, bias, ptr, out, statistics,
    EPS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Output, mean and 1 / sqrt(variance + eps) of a graph."""
    i_g, bos, n = locate_graph(ptr)
    o_c = tl.arange(0, SPAN)
    b_weight = tl.load(weight + o_c, mask=o_c < WIDTH, other=0.0).to(ACC)
    b_bias = tl.load(bias + o_c, mask=o_c < WIDTH, other=0.0).to(ACC)
    b_entries = tl.maximum(n * WIDTH, 1).to(ACC)
    # [SPAN]
    b_sum = tl.zeros([SPAN], dtype=ACC)
    for i_s in range(0, n, ROWS):
        b_h, _o_h, _m_h = load_tile(h, bos, i_s, n, WIDTH, SPAN, ROWS, ACC)
        b_sum += tl.sum(b_h, 0)
    b_mean = tl.sum(b_sum, 0) / b_entries
    b_sum, b_squares = tl.zeros([SPAN], dtype=ACC), tl.zeros([SPAN], dtype=ACC)
    for i_s in range(0, n, ROWS):
        b_h, _o_h, m_h = load_tile(h, bos, i_s, n, WIDTH, SPAN, ROWS, ACC)
        b_centred = tl.where(m_h, b_h - b_mean, 0.0)
        b_sum += tl.sum(b_centred, 0)
        b_squares += tl.sum(b_centred * b_centred, 0)
    # What the mean is wrong by: of a constant far from zero, that would be all of the variance.
    b_rest = tl.sum(b_sum, 0) / b_entries
    b_mean += b_rest
    b_variance = tl.maximum(tl.sum(b_squares, 0) / b_entries - b_rest * b_rest, 0.0)
    b_scale = 1.0 / tl.sqrt(b_variance + EPS)
    for i_s in range(0, n, ROWS):
        b_h, o_h, m_h = load_tile(h, bos, i_s, n, WIDTH, SPAN, ROWS, ACC)
        b_out = (b_h - b_mean) * b_scale * b_weight[None, :] + b_bias[None, :]
        tl.store(out + o_h, b_out.to(out.dtype.element_ty), mask=m_h)
    tl.store(statistics + 2 * i_g, b_mean)
    tl.store(statistics + 2 * i_g + 1, b_scale)


@triton.jit
def graph_layer_norm_backward(
    h, weight, ptr, statistics, grad, dh, parts,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradient of a graph, and its part of those of weight and bias."""
    i_g, bos, n = locate_graph(ptr)
    o_c = tl.arange(0, SPAN)
    b_weight = tl.load(weight + o_c, mask=o_c < WIDTH, other=0.0).to(ACC)
    b_mean, b_scale = tl.load(statistics + 2 * i_g), tl.load(statistics + 2 * i_g + 1)
    b_entries = tl.maximum(n * WIDTH, 1).to(ACC)
    # [SPAN]
    b_dweight, b_dbias = tl.zeros([SPAN], dtype=ACC), tl.zeros([SPAN], dtype=ACC)
    for i_s in range(0, n, ROWS):
        b_h, _o_h, _m_h = load_tile(h, bos, i_s, n, WIDTH, SPAN, ROWS, ACC)
        b_grad, _o_h, _m_h = load_tile(grad, bos, i_s, n, WIDTH, SPAN, ROWS, ACC)
        b_dweight += tl.sum(b_grad * (b_h - b_mean) * b_scale, 0)
        b_dbias += tl.sum(b_grad, 0)
    # Means over the graph of the gradient of (h - mean) * scale, and of its product with that.
    b_along, b_level = tl.sum(b_dweight * b_weight, 0) / b_entries, tl.sum(b_dbias * b_weight, 0) / b_entries
    for i_s in range(0, n, ROWS):
        b_h, o_h, m_h = load_tile(h, bos, i_s, n, WIDTH, SPAN, ROWS, ACC)
        b_grad, _o_h, _m_h = load_tile(grad, bos, i_s, n, WIDTH, SPAN, ROWS, ACC)
        b_dh = (b_grad * b_weight[None, :] - b_level - (b_h - b_mean) * b_scale * b_along) * b_scale
        tl.store(dh + o_h, b_dh.to(dh.dtype.element_ty), mask=m_h)
    p_parts = parts + 2 * i_g * WIDTH + o_c
    tl.store(p_parts, b_dweight, mask=o_c < WIDTH)
    tl.store(p_parts + WIDTH, b_dbias, mask=o_c < WIDTH)
