"""Triton kernel of the exact sparse flow, forward, for graphs that fit a tile. Notation: README.

It tries keys as the reference from which the unknown is counted. The right one is the highest key that fits, that is
whose delta is positive. ``b_t_low`` is the score t of the highest key known to fit, ``b_t_high`` that of the lowest
known not to. Prefixes of names: ``ops/gpu_tiles.py``.
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

# Relative distance to nu, far above its rounding, at which a key is tried.
_NEAR = tl.constexpr(1 + 2.0**-14)
# Scales of w that a row of wide scores tries before it takes scores above the limit for equal.
_SCALES = tl.constexpr(4)


@triton.jit
def _newton(
    b_t, b_w, m_k, b_lam, b_t_min, b_t_max, b_t_sum, b_spread, b_ratio, b_beta,
    INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """(t of the reference key, delta counted from it) [ROWS]: from the highest key downwards, from a key to a key."""
    b_zero = tl.zeros([ROWS], dtype=ACC)
    b_t_ref, b_phi_ref, b_most = anchor_row(b_t_min, b_t_max, b_t_sum, b_spread, b_ratio, b_lam, INV_ALPHA, LIMIT)
    b_t_try, b_t_low, b_t_high = b_t_max, b_zero - float("inf"), b_zero + float("inf")
    b_delta = b_zero + float("nan")
    m_moving = b_most > 0.0
    while tl.max(m_moving.to(tl.int32), 0) > 0:
        b_t_ref, b_phi_ref, b_budget = anchor_row(b_t_try, b_t_max, b_t_sum, b_spread, b_ratio, b_lam, INV_ALPHA, LIMIT)
        # [ROWS, KEYS]
        b_unit = (b_lam * b_phi_ref)[:, None]
        b_grown = growth(b_t, b_t_ref[:, None], LIMIT)
        b_w_active = tl.where(b_t <= b_t_ref[:, None], b_w, 0.0)
        b_low = tl.minimum(b_grown, 1.0)
        b_slope = b_beta + tl.sum(b_w_active, 1)
        b_root = (b_budget + tl.sum(b_w_active * (b_unit * (b_low - 1.0)), 1)) / b_slope
        m_fits = m_moving & (b_root > 0.0)
        b_t_low, b_delta = tl.where(m_fits, b_t_try, b_t_low), tl.where(m_fits, b_root, b_delta)
        b_t_high = tl.where(m_fits, b_t_high, b_t_try)
        # Far below the reference, d no longer tells keys from each other: theta < nu is the same question. A key that
        # rounding hides may have nearly all flow: those next to nu are tried, too.
        b_nu = (1.0 + tl.sum(b_w_active * (b_unit * b_low), 1)) / b_slope * _NEAR
        m_below = tl.where(
            m_fits[:, None], b_unit * (b_grown - 1.0) < b_root[:, None], b_unit * b_grown < b_nu[:, None]
        )
        b_t_try = tl.max(tl.where(m_k & m_below & (b_t < b_t_high[:, None]), b_t, float("-inf")), 1)
        b_t_try = tl.where(m_fits, b_t_try, tl.maximum(b_t_try, b_t_min))
        m_moving = m_moving & (b_t_try > b_t_low) & (b_t_try < b_t_high)
    return b_t_low, tl.where(b_most <= 0.0, float("-inf"), b_delta)  # no flow at all; NaN stays NaN


@triton.jit
def solve_whole(
    b_s, b_t, p_state, o_q, o_k, n, plane, first_row, b_lam, seed,
    INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr,
    HEADS: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Flows after dropout [ROWS, KEYS] of rows whose scores of all keys are at hand; stores their state.

    w is counted from the highest score of the active set, so that it does not vanish where all flow is. Nearly always
    the highest of the row will do. Where scores are spread wider than LIMIT it may not: such a row is solved again from
    the highest score of the set that came out.
    """
    m_k = (o_k < n)[None, :]
    # [ROWS]
    b_zero = tl.zeros([ROWS], dtype=ACC)
    b_lowest = b_zero - float("inf")
    b_s_max = tl.max(tl.where(m_k, b_s, float("-inf")), 1)
    b_minus_max, b_minus_sum = add_sum_exp(b_lowest, b_zero, tl.where(m_k, -b_s, float("-inf")))
    b_t_max, b_t_sum = add_sum_exp(b_lowest, b_zero, tl.where(m_k, b_t, float("-inf")))
    b_t_min = tl.min(tl.where(m_k, b_t, float("inf")), 1)
    b_clamped = tl.minimum(b_s_max, LIMIT - b_minus_max)
    m_wide = b_s_max > b_clamped
    b_top, b_next, b_left = b_clamped, b_clamped, tl.full([ROWS], _SCALES, dtype=tl.int32)
    b_t_anchor, b_t_ref, b_phi_ref, b_delta, b_log_kappa = b_zero, b_zero, b_zero, b_zero, b_zero
    while tl.max(b_left, 0) > 0:
        b_top = tl.where(b_left > 0, b_next, b_top)
        b_spread, b_ratio, b_log_kappa, b_beta = row_constants(
            b_top, b_minus_max, b_minus_sum, b_t_max, b_t_sum, INV_ALPHA
        )
        b_w = tl.where(m_k, weights(b_s, b_top[:, None]), 0.0)
        b_t_low, b_delta = _newton(
            b_t, b_w, m_k, b_lam, b_t_min, b_t_max, b_t_sum, b_spread, b_ratio, b_beta, INV_ALPHA, LIMIT, ACC, ROWS
        )
        b_t_anchor = tl.where(b_t_low > float("-inf"), b_t_low, b_t_min)
        b_t_ref, b_phi_ref, _b_budget = anchor_row(
            b_t_anchor, b_t_max, b_t_sum, b_spread, b_ratio, b_lam, INV_ALPHA, LIMIT
        )
        b_highest = tl.max(tl.where(m_k & (b_t <= b_t_ref[:, None]), b_s, float("-inf")), 1)
        b_left = tl.where(m_wide & (b_highest != b_top), b_left - 1, 0)
        b_next = tl.where(b_left > 1, b_highest, b_clamped)
    b_key = tl.max(tl.where(m_k & (b_t == b_t_anchor[:, None]), o_k[None, :], -1), 1)
    # [ROWS, KEYS]
    b_w = tl.where(m_k, weights(b_s, b_top[:, None]), 0.0)
    b_z = flows(b_t, b_w, b_t_ref[:, None], (b_lam * b_phi_ref)[:, None], b_delta[:, None], LIMIT)
    b_flows = tl.sum((b_z > 0.0).to(tl.int32), 1)
    store_state(p_state, o_q, n, plane, b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key, b_flows)
    return dropout(b_z, seed, first_row + o_q * HEADS, 0, P, KEEP)


@triton.jit(do_not_specialize=["num_rows"])
def whole_rows(
    q, k, q_friction, k_friction, v, lam, ptr, tiles, out, state, num_rows, seed,
    SCALE: tl.constexpr, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr,
    HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Graphs of at most KEYS nodes: scores once, every step in registers."""
    i_g, bos, n, o_q = locate(tiles, ptr, ROWS)
    if first_of_tile(tiles) >= n:  # of a padded batch, where there is room for more tiles than it has
        return
    i_h = tl.program_id(1)
    b_lam = tl.load(lam + i_g)
    o_k = tl.arange(0, KEYS).to(tl.int64)
    o_d = (bos * HEADS + i_h) * D

    # [ROWS, KEYS]
    b_s, b_t = pair_scores(
        q + o_d, k + o_d, q_friction + o_d, k_friction + o_d, o_q, o_k, n, SCALE, HEADS, D, CHUNK, DOT, ACC, PLAIN=True
    )
    b_z = solve_whole(
        b_s, b_t, state + num_rows.to(tl.int64) * i_h + bos, o_q, o_k, n, num_rows.to(tl.int64) * HEADS,
        bos * HEADS + i_h, b_lam, seed, INV_ALPHA, LIMIT, P, KEEP, HEADS, ACC, ROWS,
    )  # fmt: skip
    o_e = (bos * HEADS + i_h) * E
    for i_c in range(0, E, CHUNK):
        b_out = tl.zeros([ROWS, CHUNK], dtype=ACC)
        b_out = add_weighted_rows(b_out, b_z, v + o_e, o_k, i_c, n, HEADS, E, CHUNK, DOT, ACC, PLAIN=True)
        store_columns(out + o_e, b_out, o_q, i_c, n, HEADS, E, CHUNK)
