"""Scores of a tile and the problem of a row, for the Triton kernels of this folder. Notation: README.

Prefixes of names: ``ops/gpu_tiles.py``. A tile has query rows on one axis and keys on the other. Where a function
serves both orientations, numbers per row arrive with the axis of the keys already added.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dot_as


@triton.jit
def add_product(b_acc, b_a, b_b, DOT: tl.constexpr, ACC: tl.constexpr, PLAIN: tl.constexpr):
    """``acc + a b``. PLAIN: fp32 is multiplied as it is, where the registers have no room for parts of tf32."""
    if PLAIN:
        b_acc = tl.dot(b_a.to(DOT), b_b.to(DOT), b_acc, input_precision="ieee", out_dtype=ACC)
    else:
        b_acc += dot_as(b_a, b_b, DOT, ACC)
    return b_acc


@triton.jit
def inner_products(
    p_a, p_b, o_a, o_b, n,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    PLAIN: tl.constexpr = False,
):  # fmt: skip
    """[rows of a, rows of b] products of the rows of one graph and head, to whose first row p_a and p_b point.

    Rows from ``n`` on are 0. The width is walked in chunks, so that it needs no power of two and little shared memory.
    """
    b_ab = tl.zeros([o_a.shape[0], o_b.shape[0]], dtype=ACC)
    for i_c in range(0, WIDTH, CHUNK):
        o_c = i_c + tl.arange(0, CHUNK)
        # [rows of a, CHUNK]
        b_a = tl.load(
            p_a + o_a[:, None] * (HEADS * WIDTH) + o_c[None, :],
            mask=(o_a < n)[:, None] & (o_c < WIDTH)[None, :],
            other=0.0,
        )
        # [CHUNK, rows of b]
        b_b = tl.load(
            p_b + o_b[None, :] * (HEADS * WIDTH) + o_c[:, None],
            mask=(o_b < n)[None, :] & (o_c < WIDTH)[:, None],
            other=0.0,
        )
        b_ab = add_product(b_ab, b_a, b_b, DOT, ACC, PLAIN)
    return b_ab


@triton.jit
def pair_scores(
    p_q, p_k, p_qf, p_kf, o_q, o_k, n,
    SCALE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr, PLAIN: tl.constexpr = False,
):  # fmt: skip
    """(s, t) of a tile, [rows, keys] each; [keys, rows] when queries and keys change places."""
    b_s = SCALE * inner_products(p_q, p_k, o_q, o_k, n, HEADS, D, CHUNK, DOT, ACC, PLAIN)
    b_t = SCALE * inner_products(p_qf, p_kf, o_q, o_k, n, HEADS, D, CHUNK, DOT, ACC, PLAIN)
    return b_s, b_t


@triton.jit
def add_weighted_rows(
    b_acc, b_w, p_x, o_x, i_c, n,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    PLAIN: tl.constexpr = False,
):  # fmt: skip
    """``b_acc`` [.., SPAN] plus ``b_w`` [.., rows of x] times columns ``i_c .. i_c + SPAN`` of these rows of x."""
    o_c = i_c + tl.arange(0, SPAN)
    # [rows of x, SPAN]
    b_x = tl.load(
        p_x + o_x[:, None] * (HEADS * WIDTH) + o_c[None, :],
        mask=(o_x < n)[:, None] & (o_c < WIDTH)[None, :],
        other=0.0,
    )
    return add_product(b_acc, b_w, b_x, DOT, ACC, PLAIN)


@triton.jit
def store_columns(p_x, b_x, o_x, i_c, n, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """Writes columns ``i_c .. i_c + SPAN`` of rows that exist."""
    o_c = i_c + tl.arange(0, SPAN)
    m_x = (o_x < n)[:, None] & (o_c < WIDTH)[None, :]
    tl.store(p_x + o_x[:, None] * (HEADS * WIDTH) + o_c[None, :], b_x.to(p_x.dtype.element_ty), mask=m_x)


@triton.jit
def store_state(p_state, o_q, n, plane, b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key, b_flows):
    """State that the backward kernels rebuild every flow from: six planes, one number per row and head in each.

    S (score of weight 1), t_ref, log kappa, phi_ref, delta and the number of the reference key (exact in float32 up to
    2^24 keys). A seventh plane has how many flows of the row are not 0.
    """
    m_q = o_q < n
    tl.store(p_state + o_q, b_top, mask=m_q)
    tl.store(p_state + plane + o_q, b_t_ref, mask=m_q)
    tl.store(p_state + 2 * plane + o_q, b_log_kappa, mask=m_q)
    tl.store(p_state + 3 * plane + o_q, b_phi_ref, mask=m_q)
    tl.store(p_state + 4 * plane + o_q, b_delta, mask=m_q)
    tl.store(p_state + 5 * plane + o_q, b_key.to(b_delta.dtype), mask=m_q)
    tl.store(p_state + 6 * plane + o_q, b_flows.to(b_delta.dtype), mask=m_q)


@triton.jit
def add_sum_exp(b_max, b_sum, b_x):
    """Running maximum and sum of ``exp(x - maximum)`` [rows], grown by x [rows, keys]; start from (-inf, 0)."""
    b_new = tl.maximum(b_max, tl.max(b_x, 1))
    return b_new, b_sum * tl.exp(b_max - b_new) + tl.sum(tl.exp(b_x - b_new[:, None]), 1)


@triton.jit
def row_constants(b_top, b_minus_max, b_minus_sum, b_t_max, b_t_sum, INV_ALPHA: tl.constexpr):
    """(spread, ratio, log kappa, beta) [rows]: phi = ratio exp(t - t_max + spread), the fewest roundings.

    ``b_top`` is the score of weight 1, ``-b_minus_max`` the lowest of the row.
    """
    b_spread = b_top + b_minus_max
    b_ratio, b_log_kappa = b_minus_sum / b_t_sum, b_spread + tl.log(b_minus_sum)
    return b_spread, b_ratio, b_log_kappa, INV_ALPHA * tl.exp(-b_spread) / b_minus_sum


@triton.jit
def anchor_row(b_t, b_t_max, b_t_sum, b_spread, b_ratio, b_lam, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr):
    """(t_ref, phi_ref, C) [rows] of rows whose unknown is counted from the friction of score ``b_t`` [rows].

    phi_ref is capped at exp(LIMIT), where kappa itself would overflow, and at least exp(-LIMIT): below, frictions are
    equal to nothing next to the others, and t_ref is the score of that one.
    """
    b_extra = tl.log(b_ratio)
    b_t_ref = tl.maximum(b_t, b_t_max - b_spread - b_extra - LIMIT)
    b_phi_ref = b_ratio * tl.exp(tl.minimum(b_t_ref - b_t_max + b_spread, LIMIT - b_extra))
    return b_t_ref, b_phi_ref, 1.0 - b_lam * INV_ALPHA * tl.exp(b_t_ref - b_t_max) / b_t_sum


@triton.jit
def growth(b_t, b_t_ref, LIMIT: tl.constexpr):
    """Ratio exp(t - t_ref) of phi to phi_ref, of the shape of ``b_t``, capped far above 1, where keys have no flow.

    phi = phi_ref growth: the error of phi_ref is common to a row and harmless, and what phi exceeds phi_ref by,
    phi_ref (growth - 1), does not cancel.
    """
    return tl.exp(tl.minimum(b_t - b_t_ref, LIMIT + 15.0))


@triton.jit
def weights(b_s, b_top):
    """Weights w = exp(s - top), of the shape of ``b_s``. Scores above ``top`` have no flow, or count as ``top``."""
    return tl.exp(tl.minimum(b_s - b_top, 0.0))


@triton.jit
def flows(b_t, b_w, b_t_ref, b_unit, b_delta, LIMIT: tl.constexpr):
    """Flows w max(delta - D, 0) of keys up to the reference, NaN where the scores are; ``b_unit`` is lam phi_ref."""
    b_d = b_unit * (tl.minimum(growth(b_t, b_t_ref, LIMIT), 1.0) - 1.0)
    b_z = b_w * tl.maximum(b_delta - b_d, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return tl.where(b_t > b_t_ref, 0.0, b_z)
