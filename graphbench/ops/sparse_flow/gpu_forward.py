"""Triton kernel of the exact sparse flow, forward, for graphs of any size. Notation and passes: README.

``floor`` and ``ceiling`` of the last search are as in gpu_whole: highest key that fits, lowest that does not.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dropped
from graphbench.ops.sparse_flow.gpu_tiles import (
    absorb,
    friction,
    locate,
    products,
    reference,
    room,
    row_problem,
    store_rows,
    store_state,
    weighted_rows,
)


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
    spread, ratio, log_kappa, beta = row_problem(s_max, minus_max, minus_sum, t_max, t_sum, INV_ALPHA)
    t_ref, phi_ref, budget = reference(t_min, t_max, t_sum, spread, ratio, strength, INV_ALPHA, LIMIT)
    w_phi = tl.exp(tl.minimum(both_max + tl.log(both_sum * ratio) - s_max - t_max + spread, LIMIT))
    w_d = strength * tl.maximum(w_phi - phi_ref * s_sum, 0.0)

    # Search, counted from the smallest friction. The root lies between low and delta. Every threshold x gives an upper
    # bound of the root, the root of the piece that is active at x, and a lower bound x where that one exceeds x.
    low = budget / (beta + s_sum)
    delta = (budget + w_d) / (beta + s_sum)
    highest = t_min  # highest key of the active set
    some = budget > 0.0
    live = some
    # Triton 3.6 fails on a loop variable that nothing but the condition reads: the rows are counted there.
    while tl.max(live.to(tl.int32), 0) > 0:
        middle = tl.sqrt(tl.maximum(low, 0.0)) * tl.sqrt(tl.maximum(delta, 0.0))
        w_top, wd_top, t_top = nothing, nothing, nothing - float("inf")
        w_mid, wd_mid, t_mid = nothing, nothing, nothing - float("inf")
        for first in range(0, size, KEYS):
            keys = first + tile
            real = (keys < size)[None, :]
            s = SCALE * products(q, k, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
            t = SCALE * products(q_friction, k_friction, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
            w = tl.exp(s - s_max[:, None])
            _phi, above = friction(t, t_ref[:, None], phi_ref[:, None], LIMIT)
            d = strength * above
            on = real & (d < delta[:, None])
            w_top += tl.sum(tl.where(on, w, 0.0), 1)
            wd_top += tl.sum(tl.where(on, w * d, 0.0), 1)
            t_top = tl.maximum(t_top, tl.max(tl.where(on, t, float("-inf")), 1))
            on = real & (d < middle[:, None])
            w_mid += tl.sum(tl.where(on, w, 0.0), 1)
            wd_mid += tl.sum(tl.where(on, w * d, 0.0), 1)
            t_mid = tl.maximum(t_mid, tl.max(tl.where(on, t, float("-inf")), 1))
        root_top = (budget + wd_top) / (beta + w_top)
        root_mid = tl.where(t_mid > float("-inf"), (budget + wd_mid) / (beta + w_mid), float("inf"))
        low = tl.where(root_mid > middle, tl.maximum(low, middle), low)
        # The active set is the one whose root lies above its own keys and below all others. Rounding (or NaN) may leave
        # thresholds that no longer fall: that ends the search as well.
        _phi_top, d_top = friction(t_top, t_ref, phi_ref, LIMIT)
        _phi_mid, d_mid = friction(t_mid, t_ref, phi_ref, LIMIT)
        hit_mid = (root_mid <= middle) & (strength * d_mid < root_mid)
        hit = hit_mid | (strength * d_top < root_top)
        highest = tl.where(live, tl.where(hit_mid, t_mid, t_top), highest)
        better = tl.minimum(root_top, root_mid)
        live = live & (hit == 0) & (better < delta)
        delta = tl.where(live, better, delta)

    # What the search rounded: keys as the reference, up or down one by one from the highest of the set.
    trial, floor, ceiling = highest, nothing - float("inf"), nothing + float("inf")
    delta = nothing + float("nan")
    live = some
    while tl.max(live.to(tl.int32), 0) > 0:
        t_ref, phi_ref, left = reference(trial, t_max, t_sum, spread, ratio, strength, INV_ALPHA, LIMIT)
        w_sum, wd_sum = nothing, nothing
        lower, upper = nothing - float("inf"), nothing + float("inf")
        for first in range(0, size, KEYS):
            keys = first + tile
            real = (keys < size)[None, :]
            s = SCALE * products(q, k, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
            t = SCALE * products(q_friction, k_friction, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
            _phi, above = friction(t, t_ref[:, None], phi_ref[:, None], LIMIT)
            d = strength * above
            w = tl.where(real & (d <= 0.0), tl.exp(s - s_max[:, None]), 0.0)
            w_sum += tl.sum(w, 1)
            wd_sum += tl.sum(w * d, 1)
            lower = tl.maximum(lower, tl.max(tl.where(real & (d < 0.0), t, float("-inf")), 1))
            upper = tl.minimum(upper, tl.min(tl.where(real & (d > 0.0), t, float("inf")), 1))
        root = (left + wd_sum) / (beta + w_sum)
        fits = live & (root > 0.0)
        floor, delta = tl.where(fits, trial, floor), tl.where(fits, root, delta)
        ceiling = tl.where(fits, ceiling, trial)
        _phi_upper, d_upper = friction(upper, t_ref, phi_ref, LIMIT)
        trial = tl.where(fits, tl.where(strength * d_upper < root, upper, float("-inf")), lower)
        live = live & (trial > floor) & (trial < ceiling)
    delta = tl.where(budget <= 0.0, float("-inf"), delta)  # no flow at all; NaN stays NaN

    found = tl.where(floor > float("-inf"), floor, t_min)
    t_ref, phi_ref, budget = reference(found, t_max, t_sum, spread, ratio, strength, INV_ALPHA, LIMIT)
    pair_rows = ((start + rows) * HEADS + head)[:, None]
    there = (start * HEADS + head) * E
    total = tl.zeros([ROWS, E_SPAN], dtype=ACC)
    key = tl.zeros([ROWS], dtype=tl.int64) - 1
    for first in range(0, size, KEYS):
        keys = first + tile
        s = SCALE * products(q, k, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        t = SCALE * products(q_friction, k_friction, rows, keys, size, HEADS, D, CHUNK, DOT, ACC)
        real = (keys < size)[None, :]
        w = tl.where(real, tl.exp(s - s_max[:, None]), 0.0)
        key = tl.maximum(key, tl.max(tl.where(real & (t == found[:, None]), keys[None, :], -1), 1))
        _phi, above = friction(t, t_ref[:, None], phi_ref[:, None], LIMIT)
        d = strength * above
        z = w * room(delta[:, None], d)
        z = dropped(z, seed, pair_rows, keys[None, :], row_length, P, KEEP)
        total = weighted_rows(z, v + there, keys, 0, size, total, HEADS, E, E_SPAN, DOT, ACC)
    store_rows(out + there, rows, 0, size, total, HEADS, E, E_SPAN)
    plane = num_rows.to(tl.int64) * HEADS
    store_state(
        state + num_rows.to(tl.int64) * head + start, rows, size, plane, s_max, t_ref, log_kappa, phi_ref, delta, key
    )
