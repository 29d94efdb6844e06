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
    friction,
    inner_products,
    positive_part,
    row_constants,
    store_columns,
    store_state,
)


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
        b_phi, b_excess = friction(b_t, b_t_ref[:, None], b_phi_ref[:, None], LIMIT)
        b_d = b_lam * b_excess
        b_w_active = tl.where(b_d <= 0.0, b_w, 0.0)
        b_slope = b_beta + tl.sum(b_w_active, 1)
        b_root = (b_budget + tl.sum(b_w_active * b_d, 1)) / b_slope
        m_fits = m_moving & (b_root > 0.0)
        b_t_low, b_delta = tl.where(m_fits, b_t_try, b_t_low), tl.where(m_fits, b_root, b_delta)
        b_t_high = tl.where(m_fits, b_t_high, b_t_try)
        # Far below the reference, d no longer tells keys from each other: theta < nu is the same question.
        b_nu = (1.0 + tl.sum(b_w_active * b_lam * b_phi, 1)) / b_slope
        m_below = tl.where(m_fits[:, None], b_d < b_root[:, None], b_lam * b_phi < b_nu[:, None])
        b_t_try = tl.max(tl.where(m_k & m_below & (b_t < b_t_high[:, None]), b_t, float("-inf")), 1)
        b_t_try = tl.where(m_fits, b_t_try, tl.maximum(b_t_try, b_t_min))
        m_moving = m_moving & (b_t_try > b_t_low) & (b_t_try < b_t_high)
    return b_t_low, tl.where(b_most <= 0.0, float("-inf"), b_delta)  # no flow at all; NaN stays NaN


@triton.jit(do_not_specialize=["num_rows"])
def whole_rows(
    q, k, q_friction, k_friction, v, lam, ptr, tiles, out, state, num_rows, seed,
    SCALE: tl.constexpr, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr,
    HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Graphs of at most KEYS nodes: scores once, every step in registers."""
    i_g, bos, n, o_q = locate(tiles, ptr, ROWS)
    if first_of_tile(tiles) >= n:  # of a padded batch, where every class of sizes has room for all rows
        return
    i_h = tl.program_id(1)
    b_lam = tl.load(lam + i_g)
    o_k = tl.arange(0, KEYS).to(tl.int64)
    m_k = (o_k < n)[None, :]
    o_d = (bos * HEADS + i_h) * D

    # [ROWS, KEYS]
    b_s = SCALE * inner_products(q + o_d, k + o_d, o_q, o_k, n, HEADS, D, CHUNK, DOT, PRECISION, ACC)
    b_t = SCALE * inner_products(q_friction + o_d, k_friction + o_d, o_q, o_k, n, HEADS, D, CHUNK, DOT, PRECISION, ACC)
    # [ROWS]
    b_zero = tl.zeros([ROWS], dtype=ACC)
    b_lowest = b_zero - float("inf")
    b_s_max = tl.max(tl.where(m_k, b_s, float("-inf")), 1)
    b_minus_max, b_minus_sum = add_sum_exp(b_lowest, b_zero, tl.where(m_k, -b_s, float("-inf")))
    b_t_max, b_t_sum = add_sum_exp(b_lowest, b_zero, tl.where(m_k, b_t, float("-inf")))
    b_t_min = tl.min(tl.where(m_k, b_t, float("inf")), 1)
    b_spread, b_ratio, b_log_kappa, b_beta = row_constants(
        b_s_max, b_minus_max, b_minus_sum, b_t_max, b_t_sum, INV_ALPHA
    )
    # [ROWS, KEYS]
    b_w = tl.where(m_k, tl.exp(b_s - b_s_max[:, None]), 0.0)
    b_t_low, b_delta = _newton(
        b_t, b_w, m_k, b_lam, b_t_min, b_t_max, b_t_sum, b_spread, b_ratio, b_beta, INV_ALPHA, LIMIT, ACC, ROWS
    )

    # [ROWS]
    b_t_anchor = tl.where(b_t_low > float("-inf"), b_t_low, b_t_min)
    b_key = tl.max(tl.where(m_k & (b_t == b_t_anchor[:, None]), o_k[None, :], -1), 1)
    b_t_ref, b_phi_ref, _b_budget = anchor_row(b_t_anchor, b_t_max, b_t_sum, b_spread, b_ratio, b_lam, INV_ALPHA, LIMIT)
    # [ROWS, KEYS]
    _b_phi, b_excess = friction(b_t, b_t_ref[:, None], b_phi_ref[:, None], LIMIT)
    b_d = b_lam * b_excess
    plane = num_rows.to(tl.int64) * HEADS
    p_state = state + num_rows.to(tl.int64) * i_h + bos
    b_z = b_w * positive_part(b_delta[:, None], b_d)
    b_flows = tl.sum((b_z > 0.0).to(tl.int32), 1)
    store_state(p_state, o_q, n, plane, b_s_max, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key, b_flows)
    b_z = dropout(b_z, seed, (bos + o_q) * HEADS + i_h, 0, P, KEEP)
    o_e = (bos * HEADS + i_h) * E
    for i_c in range(0, E, CHUNK):
        b_out = tl.zeros([ROWS, CHUNK], dtype=ACC)
        b_out = add_weighted_rows(b_out, b_z, v + o_e, o_k, i_c, n, HEADS, E, CHUNK, DOT, PRECISION, ACC)
        store_columns(out + o_e, b_out, o_q, i_c, n, HEADS, E, CHUNK)
