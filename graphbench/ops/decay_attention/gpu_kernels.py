"""Triton kernels of attention with a decay mask. Notation and equations: README; tiles: ``ops/gpu_tiles.py``."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from graphbench.ops.decay_attention.mask import FAR, NEVER
from graphbench.ops.gpu_tiles import block, dot, dropped, locate, put
from graphbench.structures.pairs import TOKEN, UNREACHABLE

_FAR, _NEVER = tl.constexpr(FAR), tl.constexpr(NEVER)
_TOKEN, _UNREACHABLE = tl.constexpr(TOKEN), tl.constexpr(UNREACHABLE)


@triton.jit
def damped(
    scores,
    index,
    first,
    rows,
    keys,
    size,
    begin,
    LOG: tl.constexpr,
    SLOPE: tl.constexpr,
    END: tl.constexpr,
    LINEAR: tl.constexpr,
    ADDED: tl.constexpr,
    FULL: tl.constexpr,
    CLOSED: tl.constexpr,
    HOPS: tl.constexpr,
    ACC: tl.constexpr,
):
    """(z, M, dM/ds), or with ln M in place of M where it is ``ADDED``; z is minus infinity where nothing is seen."""
    real = (rows < size)[:, None] & (keys < size)[None, :]
    raw = tl.load(index + first + rows[:, None] * size + keys[None, :], mask=real, other=0)
    if HOPS:
        lost, kept = raw == _UNREACHABLE, raw == _TOKEN
    else:
        lost, kept = raw == float("inf"), raw != raw
    if FULL:
        kept = kept | lost
    reach = tl.where(lost, _FAR, raw.to(ACC)) - begin
    one = tl.zeros_like(reach) + 1.0
    step = tl.where(reach > 0.0, one, one * SLOPE)
    x = reach * step
    if LINEAR:
        fall = END - begin
        width = tl.maximum(fall, 1.0)
        m = tl.maximum(1.0 - x / width, 0.0)
        slope = step / width - tl.where(fall >= 1.0, x / (width * width), 0.0)
        slope = tl.where(m > 0.0, slope, 0.0)
        if ADDED:
            positive = tl.where(m > 0.0, m, 1.0)
            slope = slope / positive
            m = tl.where(m > 0.0, tl.log(positive), _NEVER)
    else:
        m = LOG * x
        slope = (0.0 if LOG == _NEVER else -LOG) * step
        if not ADDED:
            m = tl.exp(m)
            slope = slope * m
    m = tl.where(kept, 0.0 if ADDED else 1.0, m)
    slope = tl.where(kept, 0.0, slope)
    z = scores + m if ADDED else scores * m
    seen = real & (lost == 0) if CLOSED else real
    return tl.where(seen, z, float("-inf")), m, slope


@triton.jit(do_not_specialize=["row_length", "seed"])
def forward(
    q, k, v, index, starts, ptr, pair_ptr, tiles, out, log_sum, row_length, seed,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, ACC: tl.constexpr,
    LOG: tl.constexpr, SLOPE: tl.constexpr, END: tl.constexpr, LINEAR: tl.constexpr, ADDED: tl.constexpr,
    FULL: tl.constexpr, CLOSED: tl.constexpr, HOPS: tl.constexpr,
):  # fmt: skip
    """Output and logarithm of the sum of exponentials of a tile of queries."""
    graph, start, size, rows = locate(tiles, ptr, ROWS)
    head, first = tl.program_id(1), tl.load(pair_ptr + graph)
    begin = tl.load(starts + head).to(ACC)
    queries = block(q, start, rows, size, head, HEADS, D, SPAN_D, ACC)
    pair_rows = ((start + rows) * HEADS + head)[:, None]
    top = tl.zeros([ROWS], dtype=ACC) - float("inf")
    total, mixed = tl.zeros([ROWS], dtype=ACC), tl.zeros([ROWS, SPAN_E], dtype=ACC)
    for here in range(0, size, KEYS):
        keys = here + tl.arange(0, KEYS).to(tl.int64)
        scores = SCALE * dot(queries, tl.trans(block(k, start, keys, size, head, HEADS, D, SPAN_D, ACC)), ACC)
        z, _, _ = damped(
            scores, index, first, rows, keys, size, begin, LOG, SLOPE, END, LINEAR, ADDED, FULL, CLOSED, HOPS, ACC
        )
        above = tl.maximum(top, tl.max(z, 1))
        base = tl.where(above == float("-inf"), 0.0, above)
        weights, shrink = tl.exp(z - base[:, None]), tl.exp(top - base)
        total = total * shrink + tl.sum(weights, 1)
        weights = dropped(weights, seed, pair_rows, keys[None, :], row_length, P, KEEP)
        values = block(v, start, keys, size, head, HEADS, E, SPAN_E, ACC)
        mixed = mixed * shrink[:, None] + dot(weights.to(ACC), values, ACC)
        top = above
    total = tl.where(total == 0.0, 1.0, total)
    put(out, mixed / total[:, None], start, rows, size, head, HEADS, E, SPAN_E)
    level = tl.where(top == float("-inf"), 0.0, top) + tl.log(total)
    tl.store(log_sum + (start + rows) * HEADS + head, level, mask=rows < size)


@triton.jit(do_not_specialize=["row_length", "seed"])
def backward(
    q, k, v, index, starts, ptr, pair_ptr, tiles, grad, log_sum, along, dq, dk, dv, dstart, row_length, seed,
    OF_QUERIES: tl.constexpr,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, ACC: tl.constexpr,
    LOG: tl.constexpr, SLOPE: tl.constexpr, END: tl.constexpr, LINEAR: tl.constexpr, ADDED: tl.constexpr,
    FULL: tl.constexpr, CLOSED: tl.constexpr, HOPS: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of queries, and its part of that of the start points; or of a tile of keys and values."""
    graph, start, size, mine = locate(tiles, ptr, ROWS if OF_QUERIES else KEYS)
    head, first = tl.program_id(1), tl.load(pair_ptr + graph)
    begin = tl.load(starts + head).to(ACC)
    of_q, of_start = tl.zeros([ROWS, SPAN_D], dtype=ACC), tl.zeros([ROWS], dtype=ACC)
    of_k, of_v = tl.zeros([KEYS, SPAN_D], dtype=ACC), tl.zeros([KEYS, SPAN_E], dtype=ACC)
    for here in range(0, size, KEYS if OF_QUERIES else ROWS):
        if OF_QUERIES:
            rows, keys = mine, here + tl.arange(0, KEYS).to(tl.int64)
        else:
            rows, keys = here + tl.arange(0, ROWS).to(tl.int64), mine
        queries = block(q, start, rows, size, head, HEADS, D, SPAN_D, ACC)
        each = block(k, start, keys, size, head, HEADS, D, SPAN_D, ACC)
        scores = SCALE * dot(queries, tl.trans(each), ACC)
        z, m, slope = damped(
            scores, index, first, rows, keys, size, begin, LOG, SLOPE, END, LINEAR, ADDED, FULL, CLOSED, HOPS, ACC
        )
        places, known = (start + rows) * HEADS + head, rows < size
        weights = tl.exp(z - tl.load(log_sum + places, mask=known, other=0.0)[:, None])
        values = block(v, start, keys, size, head, HEADS, E, SPAN_E, ACC)
        incoming = block(grad, start, rows, size, head, HEADS, E, SPAN_E, ACC)
        change = dot(incoming, tl.trans(values), ACC)
        change = dropped(change, seed, places[:, None], keys[None, :], row_length, P, KEEP).to(ACC)
        change = weights * (change - tl.load(along + places, mask=known, other=0.0)[:, None])
        of_scores = change if ADDED else change * m
        if OF_QUERIES:
            of_q += SCALE * dot(of_scores, each, ACC)
            of_start += tl.sum(change * slope if ADDED else change * scores * slope, 1)
        else:
            weights = dropped(weights, seed, places[:, None], keys[None, :], row_length, P, KEEP).to(ACC)
            of_v += dot(tl.trans(weights), incoming, ACC)
            of_k += SCALE * dot(tl.trans(of_scores), queries, ACC)
    if OF_QUERIES:
        put(dq, of_q, start, mine, size, head, HEADS, D, SPAN_D)
        tl.store(dstart + tl.program_id(0) * HEADS + head, tl.sum(of_start, 0))
    else:
        put(dk, of_k, start, mine, size, head, HEADS, D, SPAN_D)
        put(dv, of_v, start, mine, size, head, HEADS, E, SPAN_E)
