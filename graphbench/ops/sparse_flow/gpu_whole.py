"""Triton kernel of the exact sparse flow, forward, for graphs that fit a tile. Notation: README.

It tries keys as the reference from which the unknown is counted. The right one is the highest key that fits, that is
whose delta is positive. ``floor`` is the highest key known to fit, ``ceiling`` the lowest known not to.
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
    """Graphs of at most KEYS nodes: scores once, every step in registers."""
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
    spread, ratio, log_kappa, beta = row_problem(s_max, minus_max, minus_sum, t_max, t_sum, INV_ALPHA)

    # Newton's method from the highest key downwards, always from a key to a key.
    w = tl.where(real, tl.exp(s - s_max[:, None]), 0.0)
    t_ref, phi_ref, most = reference(t_min, t_max, t_sum, spread, ratio, strength, INV_ALPHA, LIMIT)
    trial, floor, ceiling, delta = t_max, lowest, nothing + float("inf"), nothing + float("nan")
    live = most > 0.0
    while tl.max(live.to(tl.int32), 0) > 0:
        t_ref, phi_ref, budget = reference(trial, t_max, t_sum, spread, ratio, strength, INV_ALPHA, LIMIT)
        phi, above = friction(t, t_ref[:, None], phi_ref[:, None], LIMIT)
        d = strength * above
        active = tl.where(d <= 0.0, w, 0.0)
        slope = beta + tl.sum(active, 1)
        root = (budget + tl.sum(active * d, 1)) / slope
        fits = live & (root > 0.0)
        floor, delta = tl.where(fits, trial, floor), tl.where(fits, root, delta)
        ceiling = tl.where(fits, ceiling, trial)
        # Far below the reference, d no longer tells keys from each other: theta < nu is the same question.
        nu = (1.0 + tl.sum(active * strength * phi, 1)) / slope
        reached = tl.where(fits[:, None], d < root[:, None], strength * phi < nu[:, None])
        trial = tl.max(tl.where(real & reached & (t < ceiling[:, None]), t, float("-inf")), 1)
        trial = tl.where(fits, trial, tl.maximum(trial, t_min))
        live = live & (trial > floor) & (trial < ceiling)
    delta = tl.where(most <= 0.0, float("-inf"), delta)  # no flow at all; NaN stays NaN

    found = tl.where(floor > float("-inf"), floor, t_min)
    key = tl.max(tl.where(real & (t == found[:, None]), keys[None, :], -1), 1)
    t_ref, phi_ref, budget = reference(found, t_max, t_sum, spread, ratio, strength, INV_ALPHA, LIMIT)
    phi, above = friction(t, t_ref[:, None], phi_ref[:, None], LIMIT)
    d = strength * above
    plane = num_rows.to(tl.int64) * HEADS
    store_state(
        state + num_rows.to(tl.int64) * head + start, rows, size, plane, s_max, t_ref, log_kappa, phi_ref, delta, key
    )
    z = w * room(delta[:, None], d)
    pair_rows = ((start + rows) * HEADS + head)[:, None]
    z = dropped(z, seed, pair_rows, keys[None, :], row_length, P, KEEP)
    there = (start * HEADS + head) * E
    for first in range(0, E, CHUNK):
        total = tl.zeros([ROWS, CHUNK], dtype=ACC)
        total = weighted_rows(z, v + there, keys, first, size, total, HEADS, E, CHUNK, DOT, ACC)
        store_rows(out + there, rows, first, size, total, HEADS, E, CHUNK)
