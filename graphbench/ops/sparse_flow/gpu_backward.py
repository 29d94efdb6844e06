"""Triton kernels of the exact sparse flow, backward. Notation and formulas: README.

Flows are rebuilt from ``state`` (gpu_tiles.store_state). ``query_side`` writes the gradients of the queries and four
more numbers per row, the planes of ``sums``: g_ref, gbar - g_ref, P and Q / kappa. ``key_side`` needs nothing else, so
that every gradient is written by one program and none by atomics.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dropped
from graphbench.ops.sparse_flow.gpu_tiles import friction, locate, products, store_rows, weighted_rows


@triton.jit
def _load_state(state, rows, size, plane):
    """S, t_ref, log kappa, phi_ref, delta and reference key; values without any flow for rows that do not exist."""
    ok = rows < size
    s_max = tl.load(state + rows, mask=ok, other=0.0)
    t_ref = tl.load(state + plane + rows, mask=ok, other=0.0)
    log_kappa = tl.load(state + 2 * plane + rows, mask=ok, other=0.0)
    phi_ref = tl.load(state + 3 * plane + rows, mask=ok, other=0.0)
    delta = tl.load(state + 4 * plane + rows, mask=ok, other=float("-inf"))
    key = tl.load(state + 5 * plane + rows, mask=ok, other=-1.0).to(tl.int64)
    return s_max, t_ref, log_kappa, phi_ref, delta, key


@triton.jit
def _tied(t, t_ref, is_ref, TIE: tl.constexpr):
    """``t`` with the reference key, and what differs from it by the order of the products only, put back on t_ref."""
    return tl.where(is_ref | (tl.abs(t - t_ref) <= TIE * tl.maximum(tl.abs(t_ref), 1.0)), t_ref, t)


@triton.jit
def _score_gradients(s, w, phi, z, change, is_ref, g_ref, shift, p, q, strength, s_max, log_kappa):
    """Of the scores of a tile: z c - r P and lam phi (Q / kappa - w c), with c = g - gbar on the active set.

    gbar nears g_ref where the reference key takes nearly all flow, and lam phi w is large there: hence the two parts.
    """
    c = tl.where(z > 0.0, tl.where(is_ref, 0.0, change - g_ref) - shift, 0.0)
    return z * c - tl.exp(s_max - log_kappa - s) * p, strength * phi * (q - w * c)


@triton.jit(do_not_specialize=["num_rows", "row_length", "seed"])
def query_side(
    q,
    k,
    q_friction,
    k_friction,
    v,
    lam,
    ptr,
    tiles,
    grad,
    state,
    sums,
    grad_q,
    grad_q_friction,
    grad_lam,
    num_rows,
    row_length,
    seed,
    SCALE: tl.constexpr,
    INV_ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    TIE: tl.constexpr,
    P: tl.constexpr,
    KEEP: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    D_SPAN: tl.constexpr,
    DOT: tl.constexpr,
    ACC: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Gradients of q, q_friction and (per row) lam: one pass for the sums of the rows, one for the gradients."""
    graph, start, size, rows = locate(tiles, ptr, ROWS)
    head = tl.program_id(1)
    strength = tl.load(lam + graph)
    tile = tl.arange(0, KEYS).to(tl.int64)
    here = (start * HEADS + head) * D
    there = (start * HEADS + head) * E
    plane = num_rows.to(tl.int64) * HEADS
    place = num_rows.to(tl.int64) * head + start
    s_max, t_ref, log_kappa, phi_ref, delta, key = _load_state(state + place, rows, size, plane)
    beta = INV_ALPHA * tl.exp(-log_kappa)
    pair_rows = ((start + rows) * HEADS + head)[:, None]

    # Sums over the active set without the reference key, where ``above`` is 0.
    w_sum = tl.zeros([ROWS], dtype=ACC)
    wg_sum, phi_sum, phi_g_sum, above_sum, above_g_sum = w_sum, w_sum, w_sum, w_sum, w_sum
    w_ref, g_ref = w_sum, w_sum
    for first in range(0, size, KEYS):
        keys = first + tile
        is_ref = keys[None, :] == key[:, None]
        s = SCALE * products(q + here, k + here, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        t = SCALE * products(q_friction + here, k_friction + here, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        change = products(grad + there, v + there, rows, keys, size, HEADS, E, CHUNK, DOT, ACC)
        change = dropped(change, seed, pair_rows, keys[None, :], row_length, P, KEEP)
        phi, above = friction(_tied(t, t_ref[:, None], is_ref, TIE), t_ref[:, None], phi_ref[:, None], LIMIT)
        active = (keys < size)[None, :] & (strength * above < delta[:, None])
        w = tl.where(active, tl.exp(s - s_max[:, None]), 0.0)
        w_ref += tl.sum(tl.where(is_ref, w, 0.0), 1)
        g_ref += tl.sum(tl.where(is_ref & active, change, 0.0), 1)
        w = tl.where(is_ref, 0.0, w)
        w_sum += tl.sum(w, 1)
        wg_sum += tl.sum(w * change, 1)
        phi_sum += tl.sum(w * phi, 1)
        phi_g_sum += tl.sum(w * phi * change, 1)
        above_sum += tl.sum(w * above, 1)
        above_g_sum += tl.sum(w * above * change, 1)
    flows = w_ref + w_sum > 0.0
    slope = beta + w_sum + w_ref
    shift = tl.where(flows, (wg_sum - (beta + w_sum) * g_ref) / slope, 0.0)
    gbar = g_ref + shift
    # Q from phi or from what it exceeds phi_ref by, whichever adds the smaller numbers.
    plain = phi_g_sum - gbar * phi_sum - phi_ref * w_ref * shift
    counted = above_g_sum - gbar * above_sum + phi_ref * beta * gbar
    q_sum = tl.where(-above_sum < phi_sum + phi_ref * w_sum * (w_ref / slope), counted, plain)
    p_sum = tl.where(flows, (delta + strength * phi_ref) * beta * gbar - strength * q_sum, 0.0)
    q_sum = tl.where(flows, q_sum, 0.0)
    ok = rows < size
    tl.store(grad_lam + place + rows, -q_sum, mask=ok)
    q_sum = q_sum * tl.exp(-log_kappa)
    tl.store(sums + place + rows, g_ref, mask=ok)
    tl.store(sums + plane + place + rows, shift, mask=ok)
    tl.store(sums + 2 * plane + place + rows, p_sum, mask=ok)
    tl.store(sums + 3 * plane + place + rows, q_sum, mask=ok)

    total = tl.zeros([ROWS, D_SPAN], dtype=ACC)
    total_friction = tl.zeros([ROWS, D_SPAN], dtype=ACC)
    for first in range(0, size, KEYS):
        keys = first + tile
        real = (keys < size)[None, :]
        s = SCALE * products(q + here, k + here, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        t = SCALE * products(q_friction + here, k_friction + here, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        change = products(grad + there, v + there, rows, keys, size, HEADS, E, CHUNK, DOT, ACC)
        change = dropped(change, seed, pair_rows, keys[None, :], row_length, P, KEEP)
        is_ref = keys[None, :] == key[:, None]
        w = tl.exp(s - s_max[:, None])
        phi, above = friction(_tied(t, t_ref[:, None], is_ref, TIE), t_ref[:, None], phi_ref[:, None], LIMIT)
        z = w * tl.maximum(delta[:, None] - strength * above, 0.0)
        ds, dt = _score_gradients(
            s,
            w,
            phi,
            z,
            change,
            is_ref,
            g_ref[:, None],
            shift[:, None],
            p_sum[:, None],
            q_sum[:, None],
            strength,
            s_max[:, None],
            log_kappa[:, None],
        )
        ds, dt = tl.where(real, ds, 0.0), tl.where(real, dt, 0.0)
        total = weighted_rows(ds, k + here, keys, 0, size, total, HEADS, D, D_SPAN, DOT, ACC)
        total_friction = weighted_rows(dt, k_friction + here, keys, 0, size, total_friction, HEADS, D, D_SPAN, DOT, ACC)
    store_rows(grad_q + here, rows, 0, size, SCALE * total, HEADS, D, D_SPAN)
    store_rows(grad_q_friction + here, rows, 0, size, SCALE * total_friction, HEADS, D, D_SPAN)


@triton.jit(do_not_specialize=["num_rows", "row_length", "seed"])
def key_side(
    q,
    k,
    q_friction,
    k_friction,
    v,
    lam,
    ptr,
    tiles,
    grad,
    state,
    sums,
    grad_k,
    grad_k_friction,
    grad_v,
    num_rows,
    row_length,
    seed,
    SCALE: tl.constexpr,
    LIMIT: tl.constexpr,
    TIE: tl.constexpr,
    P: tl.constexpr,
    KEEP: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    D_SPAN: tl.constexpr,
    E_SPAN: tl.constexpr,
    DOT: tl.constexpr,
    ACC: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Gradients of k, k_friction and v: one tile of KEYS keys, all query rows. Tiles are (keys, rows) here."""
    graph, start, size, keys = locate(tiles, ptr, KEYS)
    head = tl.program_id(1)
    strength = tl.load(lam + graph)
    tile = tl.arange(0, ROWS).to(tl.int64)
    here = (start * HEADS + head) * D
    there = (start * HEADS + head) * E
    plane = num_rows.to(tl.int64) * HEADS
    place = num_rows.to(tl.int64) * head + start

    total = tl.zeros([KEYS, D_SPAN], dtype=ACC)
    total_friction = tl.zeros([KEYS, D_SPAN], dtype=ACC)
    total_v = tl.zeros([KEYS, E_SPAN], dtype=ACC)
    for first in range(0, size, ROWS):
        rows = first + tile
        ok = rows < size
        s_max, t_ref, log_kappa, phi_ref, delta, key = _load_state(state + place, rows, size, plane)
        g_ref = tl.load(sums + place + rows, mask=ok, other=0.0)
        shift = tl.load(sums + plane + place + rows, mask=ok, other=0.0)
        p_sum = tl.load(sums + 2 * plane + place + rows, mask=ok, other=0.0)
        q_sum = tl.load(sums + 3 * plane + place + rows, mask=ok, other=0.0)
        pair_rows = ((start + rows) * HEADS + head)[None, :]

        s = SCALE * products(k + here, q + here, keys, rows, size, HEADS, D, CHUNK, DOT, ACC)
        t = SCALE * products(k_friction + here, q_friction + here, keys, rows, size, HEADS, D, CHUNK, DOT, ACC)
        is_ref = keys[:, None] == key[None, :]
        w = tl.exp(s - s_max[None, :])
        phi, above = friction(_tied(t, t_ref[None, :], is_ref, TIE), t_ref[None, :], phi_ref[None, :], LIMIT)
        z = w * tl.maximum(delta[None, :] - strength * above, 0.0)
        kept = dropped(z, seed, pair_rows, keys[:, None], row_length, P, KEEP)
        total_v = weighted_rows(kept, grad + there, rows, 0, size, total_v, HEADS, E, E_SPAN, DOT, ACC)
        change = products(v + there, grad + there, keys, rows, size, HEADS, E, CHUNK, DOT, ACC)
        change = dropped(change, seed, pair_rows, keys[:, None], row_length, P, KEEP)
        ds, dt = _score_gradients(
            s,
            w,
            phi,
            z,
            change,
            is_ref,
            g_ref[None, :],
            shift[None, :],
            p_sum[None, :],
            q_sum[None, :],
            strength,
            s_max[None, :],
            log_kappa[None, :],
        )
        total = weighted_rows(ds, q + here, rows, 0, size, total, HEADS, D, D_SPAN, DOT, ACC)
        total_friction = weighted_rows(dt, q_friction + here, rows, 0, size, total_friction, HEADS, D, D_SPAN, DOT, ACC)
    store_rows(grad_k + here, keys, 0, size, SCALE * total, HEADS, D, D_SPAN)
    store_rows(grad_k_friction + here, keys, 0, size, SCALE * total_friction, HEADS, D, D_SPAN)
    store_rows(grad_v + there, keys, 0, size, total_v, HEADS, E, E_SPAN)
