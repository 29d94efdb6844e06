"""Triton kernels of linear maps and their gradients. Prefixes of names: ``ops/gpu_tiles.py``; equations: README."""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dot_as, load_tile, store_tile


@triton.jit(do_not_specialize=["num_rows"])
def linear_forward(
    h, weight, bias, out, num_rows, s_h, BIAS: tl.constexpr, RELU: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
    DEPTH: tl.constexpr, ROWS: tl.constexpr, SPAN_OUT: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """A tile of the activated map: all channels in of ROWS rows, DEPTH at a time."""
    o_n = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    o_o = tl.program_id(1) * SPAN_OUT + tl.arange(0, SPAN_OUT)
    # [ROWS, SPAN_OUT]
    b_out = tl.zeros([ROWS, SPAN_OUT], dtype=ACC)
    for i_i in range(0, IN, DEPTH):
        o_i = i_i + tl.arange(0, DEPTH)
        b_weight = load_tile(weight, o_o, o_i, OUT, IN, IN, ACC)
        b_out += dot_as(load_tile(h, o_n, o_i, num_rows, s_h, IN, ACC), tl.trans(b_weight), DOT, ACC)
    if BIAS:
        b_out += tl.load(bias + o_o, mask=o_o < OUT, other=0.0).to(ACC)[None, :]
    if RELU:
        b_out = tl.where(b_out <= 0.0, 0.0, b_out)
    store_tile(out, b_out, o_n, o_o, num_rows, OUT)


@triton.jit
def load_gradient(grad, out, o_n, o_o, rows, s_grad, RELU: tl.constexpr, OUT: tl.constexpr, ACC: tl.constexpr):
    """[rows, columns] gradient of what is activated: 0 where ReLU has cut."""
    b_grad = load_tile(grad, o_n, o_o, rows, s_grad, OUT, ACC)
    if RELU:
        b_grad = tl.where(load_tile(out, o_n, o_o, rows, OUT, OUT, ACC) <= 0.0, 0.0, b_grad)
    return b_grad


@triton.jit(do_not_specialize=["num_rows", "share"])
def linear_backward(
    h, weight, out, grad, plus, dh, parts, num_rows, share, s_h, s_grad, s_plus,
    RELU: tl.constexpr, OF_ROWS: tl.constexpr, PLUS: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, SPAN_IN: tl.constexpr, SPAN_OUT: tl.constexpr, ROWS: tl.constexpr,
    DEPTH: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Tiles of the gradient of the weight, the first of a line with the bias; behind them those of the rows.

    The former are sums over a share of the rows, (shares, OUT IN + OUT), to be added up.
    ``PLUS``: the rows have been handed on, and have a gradient from there.
    """
    columns: tl.constexpr = (IN + SPAN_IN - 1) // SPAN_IN
    of_weight: tl.constexpr = columns * ((OUT + SPAN_OUT - 1) // SPAN_OUT)
    i_tile = tl.program_id(0)
    shares = tl.cdiv(num_rows, share)
    o_i = i_tile % columns * SPAN_IN + tl.arange(0, SPAN_IN)
    if i_tile < of_weight * shares:
        i_share = i_tile // of_weight
        o_o = i_tile % of_weight // columns * SPAN_OUT + tl.arange(0, SPAN_OUT)
        last = tl.minimum((i_share + 1) * share, num_rows)
        # [SPAN_OUT, SPAN_IN]; [DEPTH, SPAN_OUT], summed over its rows once: sums of a column are barriers
        b_dweight, b_dbias = tl.zeros([SPAN_OUT, SPAN_IN], dtype=ACC), tl.zeros([DEPTH, SPAN_OUT], dtype=ACC)
        for i_n in range(i_share * share, last, DEPTH):
            o_n = i_n + tl.arange(0, DEPTH).to(tl.int64)
            b_grad = load_gradient(grad, out, o_n, o_o, last, s_grad, RELU, OUT, ACC)
            b_dweight += dot_as(tl.trans(b_grad), load_tile(h, o_n, o_i, last, s_h, IN, ACC), DOT, ACC)
            b_dbias += b_grad
        p_part = parts + i_share.to(tl.int64) * (OUT * IN + OUT)
        store_tile(p_part, b_dweight, o_o, o_i, OUT, IN)
        if i_tile % columns == 0:
            tl.store(p_part + OUT * IN + o_o, tl.sum(b_dbias, 0).to(parts.dtype.element_ty), mask=o_o < OUT)
    elif OF_ROWS:
        o_n = (i_tile - of_weight * shares) // columns * ROWS + tl.arange(0, ROWS).to(tl.int64)
        # [ROWS, SPAN_IN]
        b_dh = tl.zeros([ROWS, SPAN_IN], dtype=ACC)
        for i_o in range(0, OUT, SPAN_OUT):
            o_o = i_o + tl.arange(0, SPAN_OUT)
            b_grad = load_gradient(grad, out, o_n, o_o, num_rows, s_grad, RELU, OUT, ACC)
            b_dh += dot_as(b_grad, load_tile(weight, o_o, o_i, OUT, IN, IN, ACC), DOT, ACC)
        if PLUS:
            b_dh += load_tile(plus, o_n, o_i, num_rows, s_plus, IN, ACC)
        store_tile(dh, b_dh, o_n, o_i, num_rows, IN)
