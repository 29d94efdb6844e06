"""Triton kernels of batch normalisation. Prefixes of names: ``ops/gpu_tiles.py``; equations: README.

A program has a share of the rows and some channels. Few rows are one share, whose program knows all sums; many rows are
cut into shares, whose sums a kernel of its own writes to ``parts`` before (``STAGED``). Every share adds them up again,
in the same order, so that no sum depends on which program is first. ``s_`` are distances between rows in memory.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import kept


@triton.jit
def locate_share(num_rows, share, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """(first row of the program's share, the one behind its last, [SPAN] channels, which of them exist)."""
    first = tl.program_id(0).to(tl.int64) * share
    o_c = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    return first, tl.minimum(first + share, num_rows), o_c, o_c < WIDTH


@triton.jit
def load_rows(x, o_n, last, s_x, o_c, m_c, ACC: tl.constexpr):
    """[ROWS, SPAN]; 0 where there is nothing."""
    mask = (o_n < last)[:, None] & m_c[None, :]
    return tl.load(x + o_n[:, None] * s_x + o_c[None, :], mask=mask, other=0.0).to(ACC)


@triton.jit
def store_rows(x, b_x, o_n, last, o_c, m_c, WIDTH: tl.constexpr):
    """Inverse of :func:`load_rows`, without a distance between rows."""
    mask = (o_n < last)[:, None] & m_c[None, :]
    tl.store(x + o_n[:, None] * WIDTH + o_c[None, :], b_x.to(x.dtype.element_ty), mask=mask)


@triton.jit
def load_real(real, o_n, last, MASKED: tl.constexpr):
    """[ROWS] whether a row is there and no padding."""
    if MASKED:
        return tl.load(real + o_n, mask=o_n < last, other=0) != 0
    return o_n < last


@triton.jit
def load_input(
    h, added, seed, o_n, last, s_h, s_added, o_c, m_c,
    ADDED: tl.constexpr, P: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """[ROWS, SPAN] what is normalised."""
    b_x = load_rows(h, o_n, last, s_h, o_c, m_c, ACC)
    if ADDED:
        b_added = load_rows(added, o_n, last, s_added, o_c, m_c, ACC)
        if P > 0.0:
            b_kept = kept(seed, o_n, tl.program_id(1) * SPAN, P, SPAN)
            b_added = tl.where(b_kept, b_added * (1.0 / (1.0 - P)), 0.0)
        b_x += b_added
    return b_x


@triton.jit
def tile_moments(b_x, b_real, ACC: tl.constexpr):
    """(number of real rows of a tile, [SPAN] their mean, [SPAN] sum of squared deviations from it)."""
    count = tl.sum(b_real.to(ACC), 0)
    b_mean = tl.sum(tl.where(b_real[:, None], b_x, 0.0), 0) / tl.maximum(count, 1.0)
    b_centred = tl.where(b_real[:, None], b_x - b_mean[None, :], 0.0)
    # What the mean is wrong by: of a constant far from zero, that would be all of the variance.
    b_rest = tl.sum(b_centred, 0) / tl.maximum(count, 1.0)
    b_centred = tl.where(b_real[:, None], b_centred - b_rest[None, :], 0.0)
    return count, b_mean + b_rest, tl.sum(b_centred * b_centred, 0)


@triton.jit
def moments(
    h, added, real, seed, first, last, s_h, s_added, o_c, m_c,
    ADDED: tl.constexpr, P: tl.constexpr, MASKED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """(number of real rows of a share, [SPAN] their mean, [SPAN] sum of squared deviations from it); rows read once."""
    b_mean, b_squares = tl.zeros([SPAN], dtype=ACC), tl.zeros([SPAN], dtype=ACC)
    count = tl.sum(b_mean, 0)  # 0, in their type
    for i_n in range(first, last, ROWS):
        o_n = i_n + tl.arange(0, ROWS).to(tl.int64)
        b_real = load_real(real, o_n, last, MASKED)
        b_x = load_input(h, added, seed, o_n, last, s_h, s_added, o_c, m_c, ADDED, P, WIDTH, SPAN, ACC)
        more, b_of_tile, b_of_squares = tile_moments(b_x, b_real, ACC)
        b_apart, weight = b_of_tile - b_mean, more / tl.maximum(count + more, 1.0)
        b_squares += b_of_squares + b_apart * b_apart * count * weight
        b_mean += b_apart * weight
        count += more
    return count, b_mean, b_squares


@triton.jit(do_not_specialize=["num_rows", "share"])
def share_moments(
    h, added, real, seed, parts, num_rows, share, s_h, s_added,
    ADDED: tl.constexpr, P: tl.constexpr, MASKED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Number of real rows, mean and sum of squares of every share, (shares, 3, WIDTH)."""
    first, last, o_c, m_c = locate_share(num_rows, share, WIDTH, SPAN)
    count, b_mean, b_squares = moments(
        h, added, real, seed, first, last, s_h, s_added, o_c, m_c, ADDED, P, MASKED, WIDTH, SPAN, ROWS, ACC
    )
    p_parts = parts + tl.program_id(0) * 3 * WIDTH + o_c
    tl.store(p_parts, tl.zeros([SPAN], dtype=ACC) + count, mask=m_c)
    tl.store(p_parts + WIDTH, b_mean, mask=m_c)
    tl.store(p_parts + 2 * WIDTH, b_squares, mask=m_c)


@triton.jit
def load_shares(parts, shares, row, rows, o_c, m_c, WIDTH: tl.constexpr, SHARES: tl.constexpr):
    """[SHARES, SPAN] one row of the ``rows`` that every share has written; 0 where there is no share."""
    o_s = tl.arange(0, SHARES)
    p_parts = parts + (o_s[:, None] * rows + row) * WIDTH + o_c[None, :]
    return tl.load(p_parts, mask=(o_s < shares)[:, None] & m_c[None, :], other=0.0)


@triton.jit
def joint_moments(parts, shares, o_c, m_c, WIDTH: tl.constexpr, SHARES: tl.constexpr):
    """[SPAN] number, mean and sum of squares of all rows. Means are joined, never sums of squares subtracted."""
    b_counts = load_shares(parts, shares, 0, 3, o_c, m_c, WIDTH, SHARES)
    b_means = load_shares(parts, shares, 1, 3, o_c, m_c, WIDTH, SHARES)
    b_count = tl.sum(b_counts, 0)
    # Around the mean of the first share: that of all is found as exactly where it is far from zero.
    b_first = tl.load(parts + WIDTH + o_c, mask=m_c, other=0.0)
    b_mean = b_first + tl.sum(b_counts * (b_means - b_first[None, :]), 0) / tl.maximum(b_count, 1.0)
    b_apart = b_means - b_mean[None, :]
    b_squares = tl.sum(load_shares(parts, shares, 2, 3, o_c, m_c, WIDTH, SHARES) + b_counts * b_apart * b_apart, 0)
    return b_count, b_mean, b_squares


@triton.jit
def store_normed(
    b_x, b_mean, b_scale, b_weight, b_bias, residual, seed, out, o_n, last, s_residual, o_c, m_c,
    RESIDUAL: tl.constexpr, RELU: tl.constexpr, Q: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Writes rows of the output, of rows [ROWS, SPAN] that are to be normalised."""
    b_out = (b_x - b_mean[None, :]) * b_scale[None, :] * b_weight[None, :] + b_bias[None, :]
    if RELU:
        b_out = tl.where(b_out <= 0.0, 0.0, b_out)  # NaN stays NaN
    if Q > 0.0:
        b_kept = kept(seed + 1, o_n, tl.program_id(1) * SPAN, Q, SPAN)
        b_out = tl.where(b_kept, b_out * (1.0 / (1.0 - Q)), 0.0)
    if RESIDUAL:
        b_out += load_rows(residual, o_n, last, s_residual, o_c, m_c, ACC)
    store_rows(out, b_out, o_n, last, o_c, m_c, WIDTH)


@triton.jit(do_not_specialize=["num_rows", "share"])
def residual_norm_forward(
    h, added, residual, real, seed, weight, bias, running_mean, running_var, parts, statistics, out,
    num_rows, share, s_h, s_added, s_residual,
    TRAINING: tl.constexpr, STAGED: tl.constexpr, WHOLE: tl.constexpr, SHARES: tl.constexpr, EPS: tl.constexpr,
    MOMENTUM: tl.constexpr, ADDED: tl.constexpr, RESIDUAL: tl.constexpr, RELU: tl.constexpr, P: tl.constexpr,
    Q: tl.constexpr, MASKED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Rows of the output; the first share writes the running statistics and (mean, scale, 1 / rows) for backward.

    With fewer than two real rows the running statistics are used, and 1 / rows is written as 0. ``WHOLE``: one tile has
    all rows, which are read once.
    """
    first, last, o_c, m_c = locate_share(num_rows, share, WIDTH, SPAN)
    # Reads that depend on nothing come first: with few rows, a kernel takes as long as reads that wait for each other.
    b_weight = tl.load(weight + o_c, mask=m_c, other=0.0).to(ACC)
    b_bias = tl.load(bias + o_c, mask=m_c, other=0.0).to(ACC)
    b_old_mean = tl.load(running_mean + o_c, mask=m_c, other=0.0).to(ACC)
    b_old_var = tl.load(running_var + o_c, mask=m_c, other=0.0).to(ACC)
    if WHOLE:
        o_n = first + tl.arange(0, ROWS).to(tl.int64)
        b_x = load_input(h, added, seed, o_n, last, s_h, s_added, o_c, m_c, ADDED, P, WIDTH, SPAN, ACC)
    if TRAINING:
        if STAGED:
            b_count, b_mean, b_squares = joint_moments(parts, tl.num_programs(0), o_c, m_c, WIDTH, SHARES)
        else:
            if WHOLE:
                count, b_mean, b_squares = tile_moments(b_x, load_real(real, o_n, last, MASKED), ACC)
            else:
                count, b_mean, b_squares = moments(
                    h, added, real, seed, first, last, s_h, s_added, o_c, m_c, ADDED, P, MASKED, WIDTH, SPAN, ROWS, ACC
                )
            b_count = tl.zeros([SPAN], dtype=ACC) + count
        m_enough = b_count > 1.0
        b_inverse = tl.where(m_enough, 1.0 / tl.maximum(b_count, 1.0), 0.0)
        b_variance = b_squares / tl.maximum(b_count - 1.0, 1.0)
        b_new_mean = b_old_mean + MOMENTUM * (b_mean - b_old_mean)
        b_new_var = b_old_var + MOMENTUM * (b_variance - b_old_var)
        b_mean = tl.where(m_enough, b_mean, b_old_mean)
        b_scale = 1.0 / tl.sqrt(tl.where(m_enough, b_squares * b_inverse, b_old_var) + EPS)
        if tl.program_id(0) == 0:
            tl.store(running_mean + o_c, b_new_mean.to(running_mean.dtype.element_ty), mask=m_c & m_enough)
            tl.store(running_var + o_c, b_new_var.to(running_var.dtype.element_ty), mask=m_c & m_enough)
            tl.store(statistics + o_c, b_mean, mask=m_c)
            tl.store(statistics + WIDTH + o_c, b_scale, mask=m_c)
            tl.store(statistics + 2 * WIDTH + o_c, b_inverse, mask=m_c)
    else:
        b_mean, b_scale = b_old_mean, 1.0 / tl.sqrt(b_old_var + EPS)
    if WHOLE:
        store_normed(
            b_x, b_mean, b_scale, b_weight, b_bias, residual, seed, out, o_n, last, s_residual, o_c, m_c,
            RESIDUAL, RELU, Q, WIDTH, SPAN, ACC,
        )  # fmt: skip
    else:
        for i_n in range(first, last, ROWS):
            o_n = i_n + tl.arange(0, ROWS).to(tl.int64)
            b_x = load_input(h, added, seed, o_n, last, s_h, s_added, o_c, m_c, ADDED, P, WIDTH, SPAN, ACC)
            store_normed(
                b_x, b_mean, b_scale, b_weight, b_bias, residual, seed, out, o_n, last, s_residual, o_c, m_c,
                RESIDUAL, RELU, Q, WIDTH, SPAN, ACC,
            )  # fmt: skip


@triton.jit
def load_gradient(
    h, added, seed, grad, o_n, last, s_h, s_added, s_grad, o_c, m_c, b_mean, b_scale, b_weight, b_bias,
    ADDED: tl.constexpr, RELU: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """([ROWS, SPAN] gradient of the normalised rows times weight plus bias, the normalised rows)."""
    b_x = load_input(h, added, seed, o_n, last, s_h, s_added, o_c, m_c, ADDED, P, WIDTH, SPAN, ACC)
    b_normed = (b_x - b_mean[None, :]) * b_scale[None, :]
    b_grad = load_rows(grad, o_n, last, s_grad, o_c, m_c, ACC)
    if Q > 0.0:
        b_kept = kept(seed + 1, o_n, tl.program_id(1) * SPAN, Q, SPAN)
        b_grad = tl.where(b_kept, b_grad * (1.0 / (1.0 - Q)), 0.0)
    if RELU:
        b_grad = tl.where(b_normed * b_weight[None, :] + b_bias[None, :] <= 0.0, 0.0, b_grad)
    return b_grad, b_normed


@triton.jit
def gradient_sums(
    h, added, seed, grad, first, last, s_h, s_added, s_grad, o_c, m_c, b_mean, b_scale, b_weight, b_bias,
    ADDED: tl.constexpr, RELU: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """([SPAN] sum over a share of the gradients, [SPAN] of their products with the normalised rows)."""
    b_dbias, b_dweight = tl.zeros([SPAN], dtype=ACC), tl.zeros([SPAN], dtype=ACC)
    for i_n in range(first, last, ROWS):
        o_n = i_n + tl.arange(0, ROWS).to(tl.int64)
        b_grad, b_normed = load_gradient(
            h, added, seed, grad, o_n, last, s_h, s_added, s_grad, o_c, m_c, b_mean, b_scale, b_weight, b_bias,
            ADDED, RELU, P, Q, WIDTH, SPAN, ACC,
        )  # fmt: skip
        b_dbias += tl.sum(b_grad, 0)
        b_dweight += tl.sum(b_grad * b_normed, 0)
    return b_dbias, b_dweight


@triton.jit
def load_norm(weight, bias, statistics, o_c, m_c, WIDTH: tl.constexpr, ACC: tl.constexpr):
    """[SPAN] weight, bias, mean, scale and 1 / rows."""
    b_weight = tl.load(weight + o_c, mask=m_c, other=0.0).to(ACC)
    b_bias = tl.load(bias + o_c, mask=m_c, other=0.0).to(ACC)
    b_mean = tl.load(statistics + o_c, mask=m_c, other=0.0)
    b_scale = tl.load(statistics + WIDTH + o_c, mask=m_c, other=0.0)
    return b_weight, b_bias, b_mean, b_scale, tl.load(statistics + 2 * WIDTH + o_c, mask=m_c, other=0.0)


@triton.jit(do_not_specialize=["num_rows", "share"])
def share_gradient_sums(
    h, added, seed, weight, bias, statistics, grad, parts, num_rows, share, s_h, s_added, s_grad,
    ADDED: tl.constexpr, RELU: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of bias and weight from every share, (shares, 2, WIDTH)."""
    first, last, o_c, m_c = locate_share(num_rows, share, WIDTH, SPAN)
    b_weight, b_bias, b_mean, b_scale, _b_inverse = load_norm(weight, bias, statistics, o_c, m_c, WIDTH, ACC)
    b_dbias, b_dweight = gradient_sums(
        h, added, seed, grad, first, last, s_h, s_added, s_grad, o_c, m_c, b_mean, b_scale, b_weight, b_bias,
        ADDED, RELU, P, Q, WIDTH, SPAN, ROWS, ACC,
    )  # fmt: skip
    p_parts = parts + tl.program_id(0) * 2 * WIDTH + o_c
    tl.store(p_parts, b_dbias, mask=m_c)
    tl.store(p_parts + WIDTH, b_dweight, mask=m_c)


@triton.jit
def store_gradient(
    b_grad, b_normed, b_level, b_along, b_factor, real, seed, dh, dadded, o_n, last, o_c, m_c,
    APART: tl.constexpr, P: tl.constexpr, MASKED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    """Writes gradients of rows: b_factor times what is left of b_grad once mean and variance have their parts."""
    b_real = load_real(real, o_n, last, MASKED)
    b_grad -= tl.where(b_real[:, None], b_level[None, :] + b_normed * b_along[None, :], 0.0)
    b_grad *= b_factor[None, :]
    store_rows(dh, b_grad, o_n, last, o_c, m_c, WIDTH)
    if APART:
        if P > 0.0:
            b_kept = kept(seed, o_n, tl.program_id(1) * SPAN, P, SPAN)
            b_grad = tl.where(b_kept, b_grad * (1.0 / (1.0 - P)), 0.0)
        store_rows(dadded, b_grad, o_n, last, o_c, m_c, WIDTH)


@triton.jit(do_not_specialize=["num_rows", "share"])
def residual_norm_backward(
    h, added, real, seed, weight, bias, statistics, grad, parts, dh, dadded, dweight, dbias,
    num_rows, share, s_h, s_added, s_grad,
    STAGED: tl.constexpr, WHOLE: tl.constexpr, SHARES: tl.constexpr, APART: tl.constexpr,
    ADDED: tl.constexpr, RELU: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, MASKED: tl.constexpr,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of rows, and from the first share those of weight and bias.

    ``APART``: what was added has a gradient of its own, being of another type or dropped in part. ``WHOLE``: one tile
    has all rows, which are read once.
    """
    first, last, o_c, m_c = locate_share(num_rows, share, WIDTH, SPAN)
    b_weight, b_bias, b_mean, b_scale, b_inverse = load_norm(weight, bias, statistics, o_c, m_c, WIDTH, ACC)
    if STAGED:
        b_dbias = tl.sum(load_shares(parts, tl.num_programs(0), 0, 2, o_c, m_c, WIDTH, SHARES), 0)
        b_dweight = tl.sum(load_shares(parts, tl.num_programs(0), 1, 2, o_c, m_c, WIDTH, SHARES), 0)
    elif WHOLE:
        o_n = first + tl.arange(0, ROWS).to(tl.int64)
        b_grad, b_normed = load_gradient(
            h, added, seed, grad, o_n, last, s_h, s_added, s_grad, o_c, m_c, b_mean, b_scale, b_weight, b_bias,
            ADDED, RELU, P, Q, WIDTH, SPAN, ACC,
        )  # fmt: skip
        b_dbias, b_dweight = tl.sum(b_grad, 0), tl.sum(b_grad * b_normed, 0)
    else:
        b_dbias, b_dweight = gradient_sums(
            h, added, seed, grad, first, last, s_h, s_added, s_grad, o_c, m_c, b_mean, b_scale, b_weight, b_bias,
            ADDED, RELU, P, Q, WIDTH, SPAN, ROWS, ACC,
        )  # fmt: skip
    if tl.program_id(0) == 0:
        tl.store(dbias + o_c, b_dbias.to(dbias.dtype.element_ty), mask=m_c)
        tl.store(dweight + o_c, b_dweight.to(dweight.dtype.element_ty), mask=m_c)
    # Through mean and variance, which only real rows have a part in.
    b_level, b_along, b_factor = b_dbias * b_inverse, b_dweight * b_inverse, b_weight * b_scale
    if WHOLE:
        store_gradient(
            b_grad, b_normed, b_level, b_along, b_factor, real, seed, dh, dadded, o_n, last, o_c, m_c,
            APART, P, MASKED, WIDTH, SPAN,
        )  # fmt: skip
    else:
        for i_n in range(first, last, ROWS):
            o_n = i_n + tl.arange(0, ROWS).to(tl.int64)
            b_grad, b_normed = load_gradient(
                h, added, seed, grad, o_n, last, s_h, s_added, s_grad, o_c, m_c, b_mean, b_scale, b_weight, b_bias,
                ADDED, RELU, P, Q, WIDTH, SPAN, ACC,
            )  # fmt: skip
            store_gradient(
                b_grad, b_normed, b_level, b_along, b_factor, real, seed, dh, dadded, o_n, last, o_c, m_c,
                APART, P, MASKED, WIDTH, SPAN,
            )  # fmt: skip
