"""Triton kernels of the exact sparse flow, forward. Notation and passes: README.

Both write the output and five numbers per row, from which the backward kernels rebuild every flow: the planes of
``state`` are S (maximum of s), t_ref, log kappa, phi_ref and delta.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from graphbench.ops.sparse_flow.gpu_tiles import (
    absorb,
    dropped,
    friction,
    locate,
    products,
    room,
    row_problem,
    store_rows,
    too_high,
    weighted_rows,
)


@triton.jit
def _store_state(state, rows, size, plane, s_max, t_ref, log_kappa, phi_ref, delta):
    ok = rows < size
    tl.store(state + rows, s_max, mask=ok)
    tl.store(state + plane + rows, t_ref, mask=ok)
    tl.store(state + 2 * plane + rows, log_kappa, mask=ok)
    tl.store(state + 3 * plane + rows, phi_ref, mask=ok)
    tl.store(state + 4 * plane + rows, delta, mask=ok)


@triton.jit(do_not_specialize=["num_rows", "row_length", "seed"])
def whole_rows(
    q,
    k,
    q_friction,
    k_friction,
    v,
    lam,
    ptr,
    tiles,
    out,
    state,
    num_rows,
    row_length,
    seed,
    SCALE: tl.constexpr,
    INV_ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    P: tl.constexpr,
    KEEP: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    DOT: tl.constexpr,
    ACC: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Graphs of at most KEYS nodes: scores once, every Newton step in registers."""
    graph, start, size, rows = locate(tiles, ptr, ROWS)
    head = tl.program_id(1)
    strength = tl.load(lam + graph)
    keys = tl.arange(0, KEYS).to(tl.int64)
    real = (keys < size)[None, :]
    here = (start * HEADS + head) * D

    s = SCALE * products(q + here, k + here, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
    t = SCALE * products(q_friction + here, k_friction + here, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
    nothing = tl.zeros([ROWS], dtype=ACC)
    lowest = nothing - float("inf")
    s_max = tl.max(tl.where(real, s, float("-inf")), 1)
    minus_max, minus_sum = absorb(lowest, nothing, tl.where(real, -s, float("-inf")))
    t_max, t_sum = absorb(lowest, nothing, tl.where(real, t, float("-inf")))
    t_min = tl.min(tl.where(real, t, float("inf")), 1)
    log_kappa, _, t_ref, phi_ref, beta, budget = row_problem(
        s_max, minus_max, minus_sum, t_max, t_sum, t_min, strength, INV_ALPHA, LIMIT
    )

    w = tl.where(real, tl.exp(s - s_max[:, None]), 0.0)
    _, above = friction(t, t_ref[:, None], phi_ref[:, None], LIMIT)
    d = strength * above
    delta = (budget + tl.sum(w * d, 1)) / (beta + tl.sum(w, 1))
    live = budget > 0.0
    open_rows = tl.max(live.to(tl.int32), 0)
    while open_rows > 0:
        active = tl.where(d < delta[:, None], w, 0.0)
        lower = (budget + tl.sum(active * d, 1)) / (beta + tl.sum(active, 1))
        excess, step = too_high(delta, beta * delta + tl.sum(active * (delta[:, None] - d), 1), budget)
        lower = tl.where(excess & (lower >= delta), step, lower)
        live = live & (lower < delta)
        delta = tl.where(live, lower, delta)
        open_rows = tl.max(live.to(tl.int32), 0)
    delta = tl.where(budget <= 0.0, float("-inf"), delta)  # no flow at all; NaN stays NaN

    plane = num_rows.to(tl.int64) * HEADS
    _store_state(
        state + num_rows.to(tl.int64) * head + start, rows, size, plane, s_max, t_ref, log_kappa, phi_ref, delta
    )
    z = w * room(delta[:, None], d)
    pair_rows = ((start + rows) * HEADS + head)[:, None]
    z = dropped(z, seed, pair_rows, keys[None, :], row_length, P, KEEP)
    there = (start * HEADS + head) * E
    for first in range(0, E, CHUNK):
        total = tl.zeros([ROWS, CHUNK], dtype=ACC)
        total = weighted_rows(z, v + there, keys, first, size, total, HEADS, E, CHUNK, DOT, ACC)
        store_rows(out + there, rows, first, size, total, HEADS, E, CHUNK)


@triton.jit(do_not_specialize=["num_rows", "row_length", "seed"])
def tiled_rows(
    q,
    k,
    q_friction,
    k_friction,
    v,
    lam,
    ptr,
    tiles,
    out,
    state,
    num_rows,
    row_length,
    seed,
    SCALE: tl.constexpr,
    INV_ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    P: tl.constexpr,
    KEEP: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    E_SPAN: tl.constexpr,
    DOT: tl.constexpr,
    ACC: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Graphs of any size: scores again in every pass over the keys, two thresholds tried per pass."""
    graph, start, size, rows = locate(tiles, ptr, ROWS)
    head = tl.program_id(1)
    strength = tl.load(lam + graph)
    tile = tl.arange(0, KEYS).to(tl.int64)
    here = (start * HEADS + head) * D
    q += here
    k += here
    q_friction += here
    k_friction += here

    # Pass 1: everything the row problem needs, and the first Newton point (all active) from sum exp(s + t).
    nothing = tl.zeros([ROWS], dtype=ACC)
    s_max = nothing - float("inf")
    s_sum = nothing
    minus_max, minus_sum = s_max, nothing
    t_max, t_sum = s_max, nothing
    both_max, both_sum = s_max, nothing
    t_min = nothing + float("inf")
    for first in range(0, size, KEYS):
        keys = first + tile
        real = (keys < size)[None, :]
        s = SCALE * products(q, k, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        t = SCALE * products(q_friction, k_friction, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        s_max, s_sum = absorb(s_max, s_sum, tl.where(real, s, float("-inf")))
        minus_max, minus_sum = absorb(minus_max, minus_sum, tl.where(real, -s, float("-inf")))
        t_max, t_sum = absorb(t_max, t_sum, tl.where(real, t, float("-inf")))
        both_max, both_sum = absorb(both_max, both_sum, tl.where(real, s + t, float("-inf")))
        t_min = tl.minimum(t_min, tl.min(tl.where(real, t, float("inf")), 1))
    log_kappa, tau, t_ref, phi_ref, beta, budget = row_problem(
        s_max, minus_max, minus_sum, t_max, t_sum, t_min, strength, INV_ALPHA, LIMIT
    )
    w_phi = tl.exp(tl.minimum(both_max + tl.log(both_sum) - s_max - tau, LIMIT))
    w_d = strength * tl.maximum(w_phi - phi_ref * s_sum, 0.0)

    # The root lies between low and delta. Every threshold x gives an upper bound of the root, the root of the piece
    # that is active at x, and a lower bound x where that one exceeds x.
    low = budget / (beta + s_sum)
    delta = (budget + w_d) / (beta + s_sum)
    count = tl.zeros([ROWS], dtype=tl.int32) + size.to(tl.int32)  # keys active in the piece delta is the root of
    live = budget > 0.0
    open_rows = tl.max(live.to(tl.int32), 0)
    while open_rows > 0:
        middle = tl.sqrt(tl.maximum(low, 0.0)) * tl.sqrt(tl.maximum(delta, 0.0))
        w_top, wd_top, count_top = nothing, nothing, tl.zeros([ROWS], dtype=tl.int32)
        flow_top = beta * delta
        w_mid, wd_mid, count_mid = nothing, nothing, tl.zeros([ROWS], dtype=tl.int32)
        for first in range(0, size, KEYS):
            keys = first + tile
            real = (keys < size)[None, :]
            s = SCALE * products(q, k, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
            t = SCALE * products(q_friction, k_friction, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
            w = tl.exp(s - s_max[:, None])
            _, above = friction(t, t_ref[:, None], phi_ref[:, None], LIMIT)
            d = strength * above
            on = real & (d < delta[:, None])
            w_top += tl.sum(tl.where(on, w, 0.0), 1)
            wd_top += tl.sum(tl.where(on, w * d, 0.0), 1)
            flow_top += tl.sum(tl.where(on, w * (delta[:, None] - d), 0.0), 1)
            count_top += tl.sum(on.to(tl.int32), 1)
            on = real & (d < middle[:, None])
            w_mid += tl.sum(tl.where(on, w, 0.0), 1)
            wd_mid += tl.sum(tl.where(on, w * d, 0.0), 1)
            count_mid += tl.sum(on.to(tl.int32), 1)
        root_top = (budget + wd_top) / (beta + w_top)
        root_mid = tl.where(count_mid > 0, (budget + wd_mid) / (beta + w_mid), float("inf"))
        low = tl.where(root_mid > middle, tl.maximum(low, middle), low)
        # Active sets are nested, so equal counts are equal sets: delta's piece is the one that delta lies in. Rounding
        # (or NaN) may leave thresholds that no longer fall: that ends the search as well.
        same = count_top == count
        moving = (same == 0) & ((root_top < delta) | (root_mid < delta))
        better = moving & (root_mid < root_top)
        excess, step = too_high(delta, flow_top, budget)
        forced = excess & (moving == 0)
        found = tl.where(moving, tl.minimum(root_top, root_mid), tl.where(same, root_top, delta))
        found = tl.where(forced, step, found)
        count = tl.where(live, tl.where(forced, -1, tl.where(better, count_mid, count_top)), count)
        delta = tl.where(live, found, delta)
        live = live & (moving | forced)
        open_rows = tl.max(live.to(tl.int32), 0)
    delta = tl.where(budget <= 0.0, float("-inf"), delta)  # no flow at all; NaN stays NaN

    plane = num_rows.to(tl.int64) * HEADS
    _store_state(
        state + num_rows.to(tl.int64) * head + start, rows, size, plane, s_max, t_ref, log_kappa, phi_ref, delta
    )
    pair_rows = ((start + rows) * HEADS + head)[:, None]
    there = (start * HEADS + head) * E
    total = tl.zeros([ROWS, E_SPAN], dtype=ACC)
    for first in range(0, size, KEYS):
        keys = first + tile
        s = SCALE * products(q, k, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        t = SCALE * products(q_friction, k_friction, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        w = tl.where((keys < size)[None, :], tl.exp(s - s_max[:, None]), 0.0)
        _, above = friction(t, t_ref[:, None], phi_ref[:, None], LIMIT)
        d = strength * above
        z = w * room(delta[:, None], d)
        z = dropped(z, seed, pair_rows, keys[None, :], row_length, P, KEEP)
        total = weighted_rows(z, v + there, keys, 0, size, total, HEADS, E, E_SPAN, DOT, ACC)
    store_rows(out + there, rows, 0, size, total, HEADS, E, E_SPAN)
