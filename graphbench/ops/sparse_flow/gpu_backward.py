"""Triton kernels of the exact sparse flow, backward. Notation and formulas: README; prefixes: ``ops/gpu_tiles.py``.

Flows are rebuilt from ``state`` (gpu_tiles.store_state). ``query_side`` writes the gradients of the queries and four
more numbers per row, the planes of ``sums``: g_ref, gbar - g_ref, P and Q f_ref. ``key_side`` needs nothing else, so
that every gradient is written by one program and none by atomics. ``b_dz`` is the gradient g of the flows.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dropout, first_of_tile, kept, locate
from graphbench.ops.sparse_flow.gpu_tiles import (
    add_weighted_rows,
    growth,
    inner_products,
    pair_scores,
    store_columns,
    weights,
)


@triton.jit
def load_state(p_state, o_q, n, plane):
    """Planes of ``store_state`` [rows] but the last; rows that do not exist have no flow."""
    m_q = o_q < n
    b_top = tl.load(p_state + o_q, mask=m_q, other=0.0)
    b_t_ref = tl.load(p_state + plane + o_q, mask=m_q, other=0.0)
    b_log_kappa = tl.load(p_state + 2 * plane + o_q, mask=m_q, other=0.0)
    b_phi_ref = tl.load(p_state + 3 * plane + o_q, mask=m_q, other=0.0)
    b_delta = tl.load(p_state + 4 * plane + o_q, mask=m_q, other=float("-inf"))
    b_key = tl.load(p_state + 5 * plane + o_q, mask=m_q, other=-1.0).to(tl.int64)
    return b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key


@triton.jit
def pair_weights(b_s, b_t, b_top, b_t_ref, b_unit, b_delta, m_ref, LIMIT: tl.constexpr, TIE: tl.constexpr):
    """(w, 0 where a pair is not active; exp(t - t_ref); the same, at most 1), of the shape of ``b_t``.

    Scores that differ from the reference's by the order of products only are taken for it. ``b_unit`` is lam phi_ref.
    """
    m_tied = m_ref | (tl.abs(b_t - b_t_ref) <= TIE * tl.maximum(tl.abs(b_t_ref), 1.0))
    b_grown = growth(tl.where(m_tied, b_t_ref, b_t), b_t_ref, LIMIT)
    b_low = tl.minimum(b_grown, 1.0)
    m_active = (m_tied | (b_t <= b_t_ref)) & (b_unit * (b_low - 1.0) < b_delta)
    return tl.where(m_active, weights(b_s, b_top), 0.0), b_grown, b_low


@triton.jit
def score_gradients(
    b_s, b_w, b_grown, b_low, b_dz, m_ref,
    b_top, b_log_kappa, b_unit, b_delta, b_g_ref, b_shift, b_p_sum, b_q_ref, b_lam,
):  # fmt: skip
    """(z, gradients of s and t) of a tile: z c - r P and lam (f Q - phi w c), with c = g - gbar on the active set.

    ``b_q_ref`` is Q f_ref: f = f_ref exp(t - t_ref), however far kappa is from 1. gbar nears g_ref where the reference
    key takes nearly all flow, and lam phi w is large there: hence the two parts.
    """
    b_z = b_w * tl.maximum(b_delta - b_unit * (b_low - 1.0), 0.0)
    b_c = tl.where(b_z > 0.0, tl.where(m_ref, 0.0, b_dz - b_g_ref) - b_shift, 0.0)
    b_ds = b_z * b_c - tl.exp(b_top - b_log_kappa - b_s) * b_p_sum
    return b_z, b_ds, b_lam * b_grown * b_q_ref - b_unit * b_low * (b_w * b_c)


@triton.jit
def sums_of_pairs(b_w, b_low, b_dz, b_phi_ref, m_ref):
    """(w and g of the reference key; sums of w, w g, w phi, w phi g, w excess and w excess g without it) [rows].

    ``b_w`` is 0 where a pair is not active; the excess of the reference key is 0.
    """
    b_w_ref = tl.sum(tl.where(m_ref, b_w, 0.0), 1)
    b_g_ref = tl.sum(tl.where(m_ref & (b_w > 0.0), b_dz, 0.0), 1)
    b_w = tl.where(m_ref, 0.0, b_w)
    b_phi, b_excess = b_phi_ref * b_low, b_phi_ref * (b_low - 1.0)
    b_w_sum, b_wg_sum = tl.sum(b_w, 1), tl.sum(b_w * b_dz, 1)
    b_phi_sum, b_phi_g_sum = tl.sum(b_w * b_phi, 1), tl.sum(b_w * b_phi * b_dz, 1)
    b_excess_sum, b_excess_g_sum = tl.sum(b_w * b_excess, 1), tl.sum(b_w * b_excess * b_dz, 1)
    return b_w_ref, b_g_ref, b_w_sum, b_wg_sum, b_phi_sum, b_phi_g_sum, b_excess_sum, b_excess_g_sum


@triton.jit
def row_sums(
    b_w_ref, b_g_ref, b_w_sum, b_wg_sum, b_phi_sum, b_phi_g_sum, b_excess_sum, b_excess_g_sum,
    b_lam, b_log_kappa, b_phi_ref, b_delta, INV_ALPHA: tl.constexpr,
):  # fmt: skip
    """(gbar - g_ref, P, Q) [rows], from :func:`sums_of_pairs` of all keys."""
    b_beta = INV_ALPHA * tl.exp(-b_log_kappa)
    m_flow = b_w_ref + b_w_sum > 0.0
    b_slope = b_beta + b_w_sum + b_w_ref
    b_shift = tl.where(m_flow, (b_wg_sum - (b_beta + b_w_sum) * b_g_ref) / b_slope, 0.0)
    b_gbar = b_g_ref + b_shift
    # Q from phi or from what it exceeds phi_ref by, whichever adds the smaller numbers.
    b_from_phi = b_phi_g_sum - b_gbar * b_phi_sum - b_phi_ref * b_w_ref * b_shift
    b_from_excess = b_excess_g_sum - b_gbar * b_excess_sum + b_phi_ref * b_beta * b_gbar
    m_excess = -b_excess_sum < b_phi_sum + b_phi_ref * b_w_sum * (b_w_ref / b_slope)
    b_q_sum = tl.where(m_excess, b_from_excess, b_from_phi)
    b_p_sum = tl.where(m_flow, (b_delta + b_lam * b_phi_ref) * b_beta * b_gbar - b_lam * b_q_sum, 0.0)
    return b_shift, b_p_sum, tl.where(m_flow, b_q_sum, 0.0)


@triton.jit
def reference_part(b_q_sum, b_phi_ref, b_log_kappa):
    """Q f_ref [rows], with f_ref = phi_ref / kappa."""
    return b_q_sum * tl.exp(tl.log(b_phi_ref) - b_log_kappa)


@triton.jit
def _walk_row_sums(
    p_q, p_k, p_qf, p_kf, p_v, p_grad, o_q, o_rows, n, b_lam, b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key,
    seed,
    SCALE: tl.constexpr, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, TIE: tl.constexpr, P: tl.constexpr,
    KEEP: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr, CHUNK: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """(g_ref, gbar - g_ref, P, Q) [ROWS]: one pass over the keys."""
    # Sums over the active set without the reference key, where the excess is 0.
    b_w_sum = tl.zeros([ROWS], dtype=ACC)
    b_wg_sum, b_phi_sum, b_phi_g_sum, b_excess_sum, b_excess_g_sum = b_w_sum, b_w_sum, b_w_sum, b_w_sum, b_w_sum
    b_w_ref, b_g_ref = b_w_sum, b_w_sum
    b_unit = b_lam * b_phi_ref
    for i_s in range(0, n, KEYS):
        o_k = i_s + tl.arange(0, KEYS).to(tl.int64)
        m_ref = o_k[None, :] == b_key[:, None]
        # [ROWS, KEYS]
        b_s, b_t = pair_scores(p_q, p_k, p_qf, p_kf, o_q, o_k, n, SCALE, HEADS, D, CHUNK, DOT, ACC)
        b_dz = inner_products(p_grad, p_v, o_q, o_k, n, HEADS, E, CHUNK, DOT, ACC)
        b_dz = dropout(b_dz, seed, o_rows, i_s, P, KEEP)
        b_w, _b_grown, b_low = pair_weights(
            b_s, b_t, b_top[:, None], b_t_ref[:, None], b_unit[:, None], b_delta[:, None], m_ref, LIMIT, TIE
        )
        b_w = tl.where((o_k < n)[None, :], b_w, 0.0)
        b_w_ref_part, b_g_ref_part, b_w_part, b_wg_part, b_phi_part, b_phi_g_part, b_excess_part, b_excess_g_part = (
            sums_of_pairs(b_w, b_low, b_dz, b_phi_ref[:, None], m_ref)
        )
        b_w_ref += b_w_ref_part
        b_g_ref += b_g_ref_part
        b_w_sum += b_w_part
        b_wg_sum += b_wg_part
        b_phi_sum += b_phi_part
        b_phi_g_sum += b_phi_g_part
        b_excess_sum += b_excess_part
        b_excess_g_sum += b_excess_g_part
    b_shift, b_p_sum, b_q_sum = row_sums(
        b_w_ref, b_g_ref, b_w_sum, b_wg_sum, b_phi_sum, b_phi_g_sum, b_excess_sum, b_excess_g_sum,
        b_lam, b_log_kappa, b_phi_ref, b_delta, INV_ALPHA,
    )  # fmt: skip
    return b_g_ref, b_shift, b_p_sum, b_q_sum


@triton.jit(do_not_specialize=["num_rows"])
def query_side(
    q, k, q_friction, k_friction, v, lam, ptr, tiles, grad, state, sums, grad_q, grad_q_friction, grad_lam,
    num_rows, seed,
    SCALE: tl.constexpr, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr, TIE: tl.constexpr, P: tl.constexpr,
    KEEP: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr, D_SPAN: tl.constexpr,
    DOT: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Gradients of q, q_friction and (per row) lam: one pass for the sums of the rows, one for the gradients."""
    i_g, bos, n, o_q = locate(tiles, ptr, ROWS)
    if first_of_tile(tiles) >= n:  # of a padded batch, as in gpu_whole
        return
    i_h = tl.program_id(1)
    b_lam = tl.load(lam + i_g)
    o_d = (bos * HEADS + i_h) * D
    o_e = (bos * HEADS + i_h) * E
    p_q, p_k, p_qf, p_kf, p_v, p_grad = q + o_d, k + o_d, q_friction + o_d, k_friction + o_d, v + o_e, grad + o_e
    plane = num_rows.to(tl.int64) * HEADS
    o_plane = num_rows.to(tl.int64) * i_h + bos
    b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key = load_state(state + o_plane, o_q, n, plane)
    o_rows = (bos + o_q) * HEADS + i_h

    b_g_ref, b_shift, b_p_sum, b_q_sum = _walk_row_sums(
        p_q, p_k, p_qf, p_kf, p_v, p_grad, o_q, o_rows, n, b_lam, b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta,
        b_key, seed,
        SCALE, INV_ALPHA, LIMIT, TIE, P, KEEP, HEADS, D, E, CHUNK, DOT, ACC, ROWS, KEYS,
    )  # fmt: skip
    m_q = o_q < n
    tl.store(grad_lam + o_plane + o_q, -b_q_sum, mask=m_q)
    b_q_ref = reference_part(b_q_sum, b_phi_ref, b_log_kappa)
    p_sums = sums + o_plane
    tl.store(p_sums + o_q, b_g_ref, mask=m_q)
    tl.store(p_sums + plane + o_q, b_shift, mask=m_q)
    tl.store(p_sums + 2 * plane + o_q, b_p_sum, mask=m_q)
    tl.store(p_sums + 3 * plane + o_q, b_q_ref, mask=m_q)

    b_unit = b_lam * b_phi_ref
    # [ROWS, D_SPAN]
    b_dq = tl.zeros([ROWS, D_SPAN], dtype=ACC)
    b_dqf = tl.zeros([ROWS, D_SPAN], dtype=ACC)
    for i_s in range(0, n, KEYS):
        o_k = i_s + tl.arange(0, KEYS).to(tl.int64)
        m_k = (o_k < n)[None, :]
        # [ROWS, KEYS]
        b_s, b_t = pair_scores(p_q, p_k, p_qf, p_kf, o_q, o_k, n, SCALE, HEADS, D, CHUNK, DOT, ACC)
        b_dz = inner_products(p_grad, p_v, o_q, o_k, n, HEADS, E, CHUNK, DOT, ACC)
        b_dz = dropout(b_dz, seed, o_rows, i_s, P, KEEP)
        m_ref = o_k[None, :] == b_key[:, None]
        b_w, b_grown, b_low = pair_weights(
            b_s, b_t, b_top[:, None], b_t_ref[:, None], b_unit[:, None], b_delta[:, None], m_ref, LIMIT, TIE
        )
        _b_z, b_ds, b_dt = score_gradients(
            b_s, b_w, b_grown, b_low, b_dz, m_ref, b_top[:, None], b_log_kappa[:, None], b_unit[:, None],
            b_delta[:, None], b_g_ref[:, None], b_shift[:, None], b_p_sum[:, None], b_q_ref[:, None], b_lam,
        )  # fmt: skip
        b_ds, b_dt = tl.where(m_k, b_ds, 0.0), tl.where(m_k, b_dt, 0.0)
        b_dq = add_weighted_rows(b_dq, b_ds, p_k, o_k, 0, n, HEADS, D, D_SPAN, DOT, ACC)
        b_dqf = add_weighted_rows(b_dqf, b_dt, p_kf, o_k, 0, n, HEADS, D, D_SPAN, DOT, ACC)
    store_columns(grad_q + o_d, SCALE * b_dq, o_q, 0, n, HEADS, D, D_SPAN)
    store_columns(grad_q_friction + o_d, SCALE * b_dqf, o_q, 0, n, HEADS, D, D_SPAN)


@triton.jit(do_not_specialize=["num_rows"])
def key_side(
    q, k, q_friction, k_friction, v, lam, ptr, tiles, grad, state, sums, grad_k, grad_k_friction, grad_v,
    num_rows, seed,
    SCALE: tl.constexpr, LIMIT: tl.constexpr, TIE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr,
    HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr, D_SPAN: tl.constexpr, E_SPAN: tl.constexpr,
    DOT: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Gradients of k, k_friction and v: one tile of KEYS keys, all query rows. Tiles are [KEYS, ROWS] here."""
    i_g, bos, n, o_k = locate(tiles, ptr, KEYS)
    if first_of_tile(tiles) >= n:  # of a padded batch, as in gpu_whole
        return
    i_h = tl.program_id(1)
    b_lam = tl.load(lam + i_g)
    o_d = (bos * HEADS + i_h) * D
    o_e = (bos * HEADS + i_h) * E
    p_q, p_k, p_qf, p_kf, p_v, p_grad = q + o_d, k + o_d, q_friction + o_d, k_friction + o_d, v + o_e, grad + o_e
    plane = num_rows.to(tl.int64) * HEADS
    o_plane = num_rows.to(tl.int64) * i_h + bos
    p_sums = sums + o_plane

    # [KEYS, SPAN]
    b_dk = tl.zeros([KEYS, D_SPAN], dtype=ACC)
    b_dkf = tl.zeros([KEYS, D_SPAN], dtype=ACC)
    b_dv = tl.zeros([KEYS, E_SPAN], dtype=ACC)
    for i_t in range(0, n, ROWS):
        o_q = i_t + tl.arange(0, ROWS).to(tl.int64)
        m_q = o_q < n
        # [ROWS]
        b_top, b_t_ref, b_log_kappa, b_phi_ref, b_delta, b_key = load_state(state + o_plane, o_q, n, plane)
        b_g_ref = tl.load(p_sums + o_q, mask=m_q, other=0.0)
        b_shift = tl.load(p_sums + plane + o_q, mask=m_q, other=0.0)
        b_p_sum = tl.load(p_sums + 2 * plane + o_q, mask=m_q, other=0.0)
        b_q_ref = tl.load(p_sums + 3 * plane + o_q, mask=m_q, other=0.0)
        o_rows = (bos + o_q) * HEADS + i_h

        # [KEYS, ROWS]
        b_s, b_t = pair_scores(p_k, p_q, p_kf, p_qf, o_k, o_q, n, SCALE, HEADS, D, CHUNK, DOT, ACC)
        m_ref = o_k[:, None] == b_key[None, :]
        b_unit = b_lam * b_phi_ref
        b_w, b_grown, b_low = pair_weights(
            b_s, b_t, b_top[None, :], b_t_ref[None, :], b_unit[None, :], b_delta[None, :], m_ref, LIMIT, TIE
        )
        b_dz = inner_products(p_v, p_grad, o_k, o_q, n, HEADS, E, CHUNK, DOT, ACC)
        if P > 0.0:
            m_kept = tl.trans(kept(seed, o_rows, first_of_tile(tiles), P, KEYS))
            b_dz = tl.where(m_kept, b_dz * KEEP, 0.0)
        b_z, b_ds, b_dt = score_gradients(
            b_s, b_w, b_grown, b_low, b_dz, m_ref, b_top[None, :], b_log_kappa[None, :], b_unit[None, :],
            b_delta[None, :], b_g_ref[None, :], b_shift[None, :], b_p_sum[None, :], b_q_ref[None, :], b_lam,
        )  # fmt: skip
        if P > 0.0:
            b_z = tl.where(m_kept, b_z * KEEP, 0.0)
        b_dv = add_weighted_rows(b_dv, b_z, p_grad, o_q, 0, n, HEADS, E, E_SPAN, DOT, ACC)
        b_dk = add_weighted_rows(b_dk, b_ds, p_q, o_q, 0, n, HEADS, D, D_SPAN, DOT, ACC)
        b_dkf = add_weighted_rows(b_dkf, b_dt, p_qf, o_q, 0, n, HEADS, D, D_SPAN, DOT, ACC)
    store_columns(grad_k + o_d, SCALE * b_dk, o_k, 0, n, HEADS, D, D_SPAN)
    store_columns(grad_k_friction + o_d, SCALE * b_dkf, o_k, 0, n, HEADS, D, D_SPAN)
    store_columns(grad_v + o_e, b_dv, o_k, 0, n, HEADS, E, E_SPAN)
