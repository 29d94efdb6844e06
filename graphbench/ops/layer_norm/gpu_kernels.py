"""Triton kernels of layer normalisation. Prefixes of names: ``ops/gpu_tiles.py``; equations: README."""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dropout, load_tile, store_tile


@triton.jit
def unit_tile(b_x, o_c, EPS: tl.constexpr, WIDTH: tl.constexpr):
    """([ROWS, SPAN] rows of mean 0 and variance 1, [ROWS] what they were divided by)."""
    m_c = (o_c < WIDTH)[None, :]
    b_x = tl.where(m_c, b_x - (tl.sum(b_x, 1) / WIDTH)[:, None], 0.0)
    # What the mean is wrong by: of a constant far from zero, that would be all of the variance.
    b_x = tl.where(m_c, b_x - (tl.sum(b_x, 1) / WIDTH)[:, None], 0.0)
    b_deviation = tl.sqrt(tl.sum(b_x * b_x, 1) / WIDTH + EPS)
    return b_x / b_deviation[:, None], b_deviation


@triton.jit(do_not_specialize=["num_rows"])
def layer_norm_forward(
    h, added, weight, bias, seed, x, out, num_rows, s_h, s_added,
    EPS: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, ADDED: tl.constexpr,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """A tile of rows. ``ADDED``: their sum is written to ``x``."""
    o_n = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    o_c = tl.arange(0, SPAN)
    b_x = load_tile(h, o_n, o_c, num_rows, s_h, WIDTH, ACC)
    if ADDED:
        b_x += dropout(load_tile(added, o_n, o_c, num_rows, s_added, WIDTH, ACC), seed, o_n, 0, P, KEEP)
        store_tile(x, b_x, o_n, o_c, num_rows, WIDTH)
    b_unit, _b_deviation = unit_tile(b_x, o_c, EPS, WIDTH)
    # [SPAN]
    b_weight = tl.load(weight + o_c, mask=o_c < WIDTH, other=0.0).to(ACC)
    b_bias = tl.load(bias + o_c, mask=o_c < WIDTH, other=0.0).to(ACC)
    store_tile(out, b_unit * b_weight[None, :] + b_bias[None, :], o_n, o_c, num_rows, WIDTH)


@triton.jit(do_not_specialize=["num_rows", "share"])
def layer_norm_backward(
    x, weight, seed, grad, dh, dadded, parts, num_rows, share, s_x, s_grad,
    EPS: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, DROPPED: tl.constexpr,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of a share of the rows, and its part (2, WIDTH) of those of weight and bias."""
    first = tl.program_id(0).to(tl.int64) * share
    last, o_c = tl.minimum(first + share, num_rows), tl.arange(0, SPAN)
    # [SPAN]
    b_weight = tl.load(weight + o_c, mask=o_c < WIDTH, other=0.0).to(ACC)
    b_dweight, b_dbias = tl.zeros([SPAN], dtype=ACC), tl.zeros([SPAN], dtype=ACC)
    for i_n in range(first, last, ROWS):
        o_n = i_n + tl.arange(0, ROWS).to(tl.int64)
        # [ROWS, SPAN]
        b_unit, b_deviation = unit_tile(load_tile(x, o_n, o_c, last, s_x, WIDTH, ACC), o_c, EPS, WIDTH)
        b_grad = load_tile(grad, o_n, o_c, last, s_grad, WIDTH, ACC)
        b_dweight += tl.sum(b_grad * b_unit, 0)
        b_dbias += tl.sum(b_grad, 0)
        b_grad *= b_weight[None, :]
        b_level, b_along = tl.sum(b_grad, 1) / WIDTH, tl.sum(b_grad * b_unit, 1) / WIDTH
        b_dx = (b_grad - b_level[:, None] - b_unit * b_along[:, None]) / b_deviation[:, None]
        store_tile(dh, b_dx, o_n, o_c, last, WIDTH)
        if DROPPED:
            store_tile(dadded, dropout(b_dx, seed, o_n, 0, P, KEEP), o_n, o_c, last, WIDTH)
    p_parts = parts + tl.program_id(0) * 2 * WIDTH + o_c
    tl.store(p_parts, b_dweight, mask=o_c < WIDTH)
    tl.store(p_parts + WIDTH, b_dbias, mask=o_c < WIDTH)
