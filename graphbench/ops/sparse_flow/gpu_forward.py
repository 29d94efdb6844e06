"""Triton kernel of the exact sparse flow, forward, for graphs of any size. Notation and passes: README.

One helper per pass, each of which computes the scores again; prefixes of names: ``ops/gpu_tiles.py``. ``b_t_low`` and
``b_t_high`` are as in gpu_whole: scores of the highest key that fits and of the lowest that does not.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dropout, first_of_tile, locate
from graphbench.ops.sparse_flow.gpu_tiles import (
    add_sum_exp,
    add_weighted_rows,
    anchor_row,
    flows,
    growth,
    pair_scores,
    row_constants,
    store_columns,
    store_state,
    weights,
)


@triton.jit
def _row_statistics(
    p_q, p_k, p_qf, p_kf, o_q, n,
    SCALE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Pass 1: maxima and sums of exponentials of s, -s, t and s + t, and the minimum of t, [ROWS] each."""
    b_zero = tl.zeros([ROWS], dtype=ACC)
    b_s_max, b_s_sum = b_zero - float("inf"), b_zero
    b_minus_max, b_minus_sum = b_s_max, b_zero
    b_t_max, b_t_sum = b_s_max, b_zero
    b_both_max, b_both_sum = b_s_max, b_zero
    b_t_min = b_zero + float("inf")
    for i_s in range(0, n, KEYS):
        o_k = i_s + tl.arange(0, KEYS).to(tl.int64)
        m_k = (o_k < n)[None, :]
        # [ROWS, KEYS]
        b_s, b_t = pair_scores(p_q, p_k, p_qf, p_kf, o_q, o_k, n, SCALE, HEADS, D, CHUNK, DOT, ACC)
        b_s_max, b_s_sum = add_sum_exp(b_s_max, b_s_sum, tl.where(m_k, b_s, float("-inf")))
        b_minus_max, b_minus_sum = add_sum_exp(b_minus_max, b_minus_sum, tl.where(m_k, -b_s, float("-inf")))
        b_t_max, b_t_sum = add_sum_exp(b_t_max, b_t_sum, tl.where(m_k, b_t, float("-inf")))
        b_both_max, b_both_sum = add_sum_exp(b_both_max, b_both_sum, tl.where(m_k, b_s + b_t, float("-inf")))
        b_t_min = tl.minimum(b_t_min, tl.min(tl.where(m_k, b_t, float("inf")), 1))
    return b_s_max, b_s_sum, b_minus_max, b_minus_sum, b_t_max, b_t_sum, b_both_max, b_both_sum, b_t_min


@triton.jit
def _sums_below(b_threshold, b_t, b_w, b_d, m_k):
    """(sum of w, sum of w D, highest t) [ROWS] over the keys with D below a threshold [ROWS]."""
    m_below = m_k & (b_d < b_threshold[:, None])
    b_w_sum = tl.sum(tl.where(m_below, b_w, 0.0), 1)
    b_wd_sum = tl.sum(tl.where(m_below, b_w * b_d, 0.0), 1)
    return b_w_sum, b_wd_sum, tl.max(tl.where(m_below, b_t, float("-inf")), 1)


@triton.jit
def _search(
    p_q, p_k, p_qf, p_kf, o_q, n, b_top, b_t_min, b_t_ref, b_unit, b_beta, b_budget, b_low, b_delta,
    SCALE: tl.constexpr, LIMIT: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr,
    DOT: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Passes 2: the highest t of the active set [ROWS], counted from the smallest friction.

    The root lies between ``b_low`` and ``b_delta``. Every threshold x gives an upper bound of the root, the root of the
    piece that is active at x, and a lower bound x where that one exceeds x.
    """
    b_zero = tl.zeros([ROWS], dtype=ACC)
    b_t_top = b_t_min
    m_moving = b_budget > 0.0
    # Triton 3.6 fails on a loop variable that nothing but the condition reads: the rows are counted there.
    while tl.max(m_moving.to(tl.int32), 0) > 0:
        b_middle = tl.sqrt(tl.maximum(b_low, 0.0)) * tl.sqrt(tl.maximum(b_delta, 0.0))
        b_w_top, b_wd_top, b_t_high = b_zero, b_zero, b_zero - float("inf")
        b_w_mid, b_wd_mid, b_t_mid = b_zero, b_zero, b_zero - float("inf")
        for i_s in range(0, n, KEYS):
            o_k = i_s + tl.arange(0, KEYS).to(tl.int64)
            # [ROWS, KEYS]
            b_s, b_t = pair_scores(p_q, p_k, p_qf, p_kf, o_q, o_k, n, SCALE, HEADS, D, CHUNK, DOT, ACC)
            m_k = (o_k < n)[None, :]
            b_w = weights(b_s, b_top[:, None])
            b_d = b_unit[:, None] * (growth(b_t, b_t_ref[:, None], LIMIT) - 1.0)
            b_w_part, b_wd_part, b_t_part = _sums_below(b_middle, b_t, b_w, b_d, m_k)
            b_w_mid += b_w_part
            b_wd_mid += b_wd_part
            b_t_mid = tl.maximum(b_t_mid, b_t_part)
            b_w_part, b_wd_part, b_t_part = _sums_below(b_delta, b_t, b_w, b_d, m_k)
            b_w_top += b_w_part
            b_wd_top += b_wd_part
            b_t_high = tl.maximum(b_t_high, b_t_part)
        b_root_top = (b_budget + b_wd_top) / (b_beta + b_w_top)
        m_some = b_t_mid > float("-inf")
        b_root_mid = tl.where(m_some, (b_budget + b_wd_mid) / (b_beta + b_w_mid), float("inf"))
        b_low = tl.where(b_root_mid > b_middle, tl.maximum(b_low, b_middle), b_low)
        # The active set is the one whose root lies above its own keys and below all others. Rounding (or NaN) may leave
        # thresholds that no longer fall: that ends the search as well.
        m_done_mid = (b_root_mid <= b_middle) & (b_unit * (growth(b_t_mid, b_t_ref, LIMIT) - 1.0) < b_root_mid)
        m_done = m_done_mid | (b_unit * (growth(b_t_high, b_t_ref, LIMIT) - 1.0) < b_root_top)
        b_t_top = tl.where(m_moving, tl.where(m_done_mid, b_t_mid, b_t_high), b_t_top)
        b_better = tl.minimum(b_root_top, b_root_mid)
        m_moving = m_moving & (m_done == 0) & (b_better < b_delta)
        b_delta = tl.where(m_moving, b_better, b_delta)
    return b_t_top


@triton.jit
def _settle(
    p_q, p_k, p_qf, p_kf, o_q, n, b_lam, b_top, b_t_top, b_t_max, b_t_sum, b_spread, b_ratio, b_beta, b_budget,
    SCALE: tl.constexpr, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    CHUNK: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):  # fmt: skip
    """Passes 3: (t of the reference key, delta counted from it) [ROWS], what the search rounded put right.

    Keys as the reference, up or down one by one from the highest of the set.
    """
    b_zero = tl.zeros([ROWS], dtype=ACC)
    b_t_try, b_t_low, b_t_high = b_t_top, b_zero - float("inf"), b_zero + float("inf")
    b_delta = b_zero + float("nan")
    m_moving = b_budget > 0.0
    while tl.max(m_moving.to(tl.int32), 0) > 0:
        b_t_ref, b_phi_ref, b_left = anchor_row(b_t_try, b_t_max, b_t_sum, b_spread, b_ratio, b_lam, INV_ALPHA, LIMIT)
        b_unit = b_lam * b_phi_ref
        b_w_sum, b_wd_sum = b_zero, b_zero
        b_t_below, b_t_above = b_zero - float("inf"), b_zero + float("inf")
        for i_s in range(0, n, KEYS):
            o_k = i_s + tl.arange(0, KEYS).to(tl.int64)
            # [ROWS, KEYS]
            b_s, b_t = pair_scores(p_q, p_k, p_qf, p_kf, o_q, o_k, n, SCALE, HEADS, D, CHUNK, DOT, ACC)
            m_k = (o_k < n)[None, :]
            b_low = tl.minimum(growth(b_t, b_t_ref[:, None], LIMIT), 1.0)
            b_w = tl.where(m_k & (b_t <= b_t_ref[:, None]), weights(b_s, b_top[:, None]), 0.0)
            b_w_sum += tl.sum(b_w, 1)
            b_wd_sum += tl.sum(b_w * (b_unit[:, None] * (b_low - 1.0)), 1)
            b_t_below = tl.maximum(b_t_below, tl.max(tl.where(m_k & (b_low < 1.0), b_t, float("-inf")), 1))
            b_t_above = tl.minimum(b_t_above, tl.min(tl.where(m_k & (b_t > b_t_ref[:, None]), b_t, float("inf")), 1))
        b_root = (b_left + b_wd_sum) / (b_beta + b_w_sum)
        m_fits = m_moving & (b_root > 0.0)
        b_t_low, b_delta = tl.where(m_fits, b_t_try, b_t_low), tl.where(m_fits, b_root, b_delta)
        b_t_high = tl.where(m_fits, b_t_high, b_t_try)
        m_more = b_unit * (growth(b_t_above, b_t_ref, LIMIT) - 1.0) < b_root
        b_t_next = tl.where(m_more, b_t_above, float("-inf"))
        b_t_try = tl.where(m_fits, b_t_next, b_t_below)
        m_moving = m_moving & (b_t_try > b_t_low) & (b_t_try < b_t_high)
    return b_t_low, tl.where(b_budget <= 0.0, float("-inf"), b_delta)  # no flow at all; NaN stays NaN


@triton.jit
def _output(
    p_q, p_k, p_qf, p_kf, p_v, o_q, o_rows, n, b_top, b_t_anchor, b_t_ref, b_unit, b_delta, seed,
    SCALE: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, E_SPAN: tl.constexpr, CHUNK: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Pass 4: products of the flows with v [ROWS, E_SPAN]; the reference key, and how many flows are not 0 [ROWS]."""
    b_out = tl.zeros([ROWS, E_SPAN], dtype=ACC)
    b_key = tl.zeros([ROWS], dtype=tl.int64) - 1
    b_flows = tl.zeros([ROWS], dtype=tl.int32)
    for i_s in range(0, n, KEYS):
        o_k = i_s + tl.arange(0, KEYS).to(tl.int64)
        # [ROWS, KEYS]
        b_s, b_t = pair_scores(p_q, p_k, p_qf, p_kf, o_q, o_k, n, SCALE, HEADS, D, CHUNK, DOT, ACC)
        m_k = (o_k < n)[None, :]
        b_w = tl.where(m_k, weights(b_s, b_top[:, None]), 0.0)
        b_key = tl.maximum(b_key, tl.max(tl.where(m_k & (b_t == b_t_anchor[:, None]), o_k[None, :], -1), 1))
        b_z = flows(b_t, b_w, b_t_ref[:, None], b_unit[:, None], b_delta[:, None], LIMIT)
        b_flows += tl.sum((b_z > 0.0).to(tl.int32), 1)
        b_z = dropout(b_z, seed, o_rows, i_s, P, KEEP)
        b_out = add_weighted_rows(b_out, b_z, p_v, o_k, 0, n, HEADS, E, E_SPAN, DOT, ACC)
    return b_out, b_key, b_flows


@triton.jit(do_not_specialize=["num_rows"])
def tiled_rows(
    q, k, q_friction, k_friction, v, lam, ptr, tiles, out, state, num_rows, seed,
    SCALE: tl.constexpr, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr,
    HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr, E_SPAN: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Graphs of any size: scores again in every pass over the keys, two thresholds tried per pass."""
    i_g, bos, n, o_q = locate(tiles, ptr, ROWS)
    if first_of_tile(tiles) >= n:  # of a padded batch, as in gpu_whole
        return
    i_h = tl.program_id(1)
    b_lam = tl.load(lam + i_g)
    o_d = (bos * HEADS + i_h) * D
    p_q, p_k, p_qf, p_kf = q + o_d, k + o_d, q_friction + o_d, k_friction + o_d

    b_s_max, b_s_sum, b_minus_max, b_minus_sum, b_t_max, b_t_sum, b_both_max, b_both_sum, b_t_min = _row_statistics(
        p_q, p_k, p_qf, p_kf, o_q, n, SCALE, HEADS, D, CHUNK, DOT, ACC, ROWS, KEYS
    )
    # Scores more than LIMIT above the lowest, whose resistances are nothing next to all others, count as equal.
    b_top = tl.minimum(b_s_max, LIMIT - b_minus_max)
    b_spread, b_ratio, b_log_kappa, b_beta = row_constants(b_top, b_minus_max, b_minus_sum, b_t_max, b_t_sum, INV_ALPHA)
    b_t_ref, b_phi_ref, b_budget = anchor_row(b_t_min, b_t_max, b_t_sum, b_spread, b_ratio, b_lam, INV_ALPHA, LIMIT)
    # The first Newton point takes all flows for active: sum w phi follows from sum exp(s + t). Where scores count as
    # equal, the sums are bounds.
    b_w_phi = tl.exp(tl.minimum(b_both_max + tl.log(b_both_sum * b_ratio) - b_top - b_t_max + b_spread, LIMIT))
    m_equal = b_s_max > b_top
    b_least = tl.where(m_equal, 1.0, b_s_sum)
    b_w_d = b_lam * tl.maximum(b_w_phi - b_phi_ref * b_least, 0.0)
    b_low = b_budget / (b_beta + tl.where(m_equal, n.to(ACC), b_s_sum))
    b_delta = (b_budget + b_w_d) / (b_beta + b_least)
    b_t_top = _search(
        p_q, p_k, p_qf, p_kf, o_q, n, b_top, b_t_min, b_t_ref, b_lam * b_phi_ref, b_beta, b_budget, b_low, b_delta,
        SCALE, LIMIT, HEADS, D, CHUNK, DOT, ACC, ROWS, KEYS,
    )  # fmt: skip
    b_t_low, b_delta = _settle(
        p_q, p_k, p_qf, p_kf, o_q, n, b_lam, b_top, b_t_top, b_t_max, b_t_sum, b_spread, b_ratio, b_beta, b_budget,
        SCALE, INV_ALPHA, LIMIT, HEADS, D, CHUNK, DOT, ACC, ROWS, KEYS,
    )  # fmt: skip
    b_t_anchor = tl.where(b_t_low > float("-inf"), b_t_low, b_t_min)
    b_t_ref, b_phi_ref, b_budget = anchor_row(b_t_anchor, b_t_max, b_t_sum, b_spread, b_ratio, b_lam, INV_ALPHA, LIMIT)
    o_rows, o_e = (bos + o_q) * HEADS + i_h, (bos * HEADS + i_h) * E
    b_out, b_key, b_flows = _output(
        p_q, p_k, p_qf, p_kf, v + o_e, o_q, o_rows, n, b_top, b_t_anchor, b_t_ref, b_lam * b_phi_ref, b_delta, seed,
        SCALE, LIMIT, P, KEEP, HEADS, D, E, E_SPAN, CHUNK, DOT, ACC, ROWS, KEYS,
    )  # fmt: skip
    store_columns(out + o_e, b_out, o_q, 0, n, HEADS, E, E_SPAN)
    p_state = state + num_rows.to(tl.int64) * i_h + bos
    plane = num_rows.to(tl.int64) * HEADS
    store_state(p_state, o_q, n, plane, b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key, b_flows)
