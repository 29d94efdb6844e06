"""Triton kernels of focal attention. Notation and equations: README; tiles: ``ops/gpu_tiles.py``.

Relations of pairs arrive as numbers per row and kind, (N, H, T): ``term`` is what a kind adds to the scores of its row,
``sums`` what the row's weights of a kind add up to.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import block, dot, dropped, locate, put
from graphbench.structures.pairs import TOKEN, UNREACHABLE

_TOKEN, _UNREACHABLE = tl.constexpr(TOKEN), tl.constexpr(UNREACHABLE)


@triton.jit
def kinds_of(kinds, first, rows, keys, size, RELATED: tl.constexpr):
    """(rows, keys) number of the relation of every pair; 0 where there is none."""
    if RELATED:
        real = (rows < size)[:, None] & (keys < size)[None, :]
        return tl.load(kinds + first + rows[:, None] * size + keys[None, :], mask=real, other=0).to(tl.int32)
    return (rows[:, None] + keys[None, :]).to(tl.int32) * 0


@triton.jit
def looked_up(x, kind, start, rows, keys, size, head, HEADS: tl.constexpr, KINDS: tl.constexpr, ACC: tl.constexpr):
    """(rows, keys) what the row has for the kind of the pair, from (N, H, T)."""
    real = (rows < size)[:, None] & (keys < size)[None, :]
    places = (((start + rows) * HEADS + head) * KINDS)[:, None] + kind
    return tl.load(x + places, mask=real, other=0.0).to(ACC)


@triton.jit
def summed(values, kind, KINDS: tl.constexpr, SPAN: tl.constexpr, ACC: tl.constexpr):
    """(rows, SPAN) sums of the pairs of every kind; one kind after the other, so that the order is fixed."""
    cols = tl.arange(0, SPAN)[None, :]
    total = tl.zeros([values.shape[0], SPAN], dtype=ACC)
    for each in range(0, KINDS):
        of_kind = tl.sum(tl.where(kind == each, values, 0.0), 1)
        total += tl.where(cols == each, of_kind[:, None], 0.0)
    return total


@triton.jit
def visible(
    scores, hops, bias, term, kind, first, start, rows, keys, size, head, reach,
    HEADS: tl.constexpr, KINDS: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Scores with what is added to them; minus infinity where the head does not see."""
    real = (rows < size)[:, None] & (keys < size)[None, :]
    pairs = first + rows[:, None] * size + keys[None, :]
    seen = real
    if LIMITED:
        hop = tl.load(hops + pairs, mask=real, other=0).to(tl.int32)
        near = (hop <= reach) | (hop == _TOKEN)
        if LOST:
            near = near | (hop == _UNREACHABLE)
        seen = real & near
    if TERM:
        scores += looked_up(term, kind, start, rows, keys, size, head, HEADS, KINDS, ACC)
    if BIASED:
        scores += tl.load(bias + pairs * HEADS + head, mask=real, other=0.0).to(ACC)
    return tl.where(seen, scores, float("-inf"))


@triton.jit(do_not_specialize=["row_length", "seed"])
def forward(
    q, k, v, hops, kinds, term, bias, reaches, ptr, pair_ptr, tiles, out, sums, log_sum, row_length, seed,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, ACC: tl.constexpr,
    KINDS: tl.constexpr, SPAN_T: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """Output, sums of weights by kind, and logarithm of the sum of exponentials of a tile of queries."""
    graph, start, size, rows = locate(tiles, ptr, ROWS)
    head, first = tl.program_id(1), tl.load(pair_ptr + graph)
    reach = tl.load(reaches + head)
    queries = block(q, start, rows, size, head, HEADS, D, SPAN_D, ACC)
    pair_rows = ((start + rows) * HEADS + head)[:, None]
    top = tl.zeros([ROWS], dtype=ACC) - float("inf")
    total, mixed = tl.zeros([ROWS], dtype=ACC), tl.zeros([ROWS, SPAN_E], dtype=ACC)
    by_kind = tl.zeros([ROWS, SPAN_T], dtype=ACC)
    for here in range(0, size, KEYS):
        keys = here + tl.arange(0, KEYS).to(tl.int64)
        kind = kinds_of(kinds, first, rows, keys, size, TERM or SUMS)
        scores = SCALE * dot(queries, tl.trans(block(k, start, keys, size, head, HEADS, D, SPAN_D, ACC)), ACC)
        z = visible(
            scores, hops, bias, term, kind, first, start, rows, keys, size, head, reach,
            HEADS, KINDS, LIMITED, LOST, BIASED, TERM, ACC,
        )  # fmt: skip
        above = tl.maximum(top, tl.max(z, 1))
        base = tl.where(above == float("-inf"), 0.0, above)
        weights, shrink = tl.exp(z - base[:, None]), tl.exp(top - base)
        total = total * shrink + tl.sum(weights, 1)
        weights = dropped(weights, seed, pair_rows, keys[None, :], row_length, P, KEEP).to(ACC)
        values = block(v, start, keys, size, head, HEADS, E, SPAN_E, ACC)
        mixed = mixed * shrink[:, None] + dot(weights, values, ACC)
        if SUMS:
            by_kind = by_kind * shrink[:, None] + summed(weights, kind, KINDS, SPAN_T, ACC)
        top = above
    total = tl.where(total == 0.0, 1.0, total)
    put(out, mixed / total[:, None], start, rows, size, head, HEADS, E, SPAN_E)
    if SUMS:
        put(sums, by_kind / total[:, None], start, rows, size, head, HEADS, KINDS, SPAN_T)
    level = tl.where(top == float("-inf"), 0.0, top) + tl.log(total)
    tl.store(log_sum + (start + rows) * HEADS + head, level, mask=rows < size)


@triton.jit(do_not_specialize=["row_length", "seed"])
def backward(
    q, k, v, hops, kinds, term, bias, reaches, ptr, pair_ptr, tiles, grad, grad_sums, log_sum, along,
    dq, dk, dv, dterm, dbias, row_length, seed,
    OF_QUERIES: tl.constexpr, GRAD_BIAS: tl.constexpr,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, ACC: tl.constexpr,
    KINDS: tl.constexpr, SPAN_T: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of queries, their terms and the bias of their pairs; or of a tile of keys and values."""
    graph, start, size, mine = locate(tiles, ptr, ROWS if OF_QUERIES else KEYS)
    head, first = tl.program_id(1), tl.load(pair_ptr + graph)
    reach = tl.load(reaches + head)
    of_q, of_term = tl.zeros([ROWS, SPAN_D], dtype=ACC), tl.zeros([ROWS, SPAN_T], dtype=ACC)
    of_k, of_v = tl.zeros([KEYS, SPAN_D], dtype=ACC), tl.zeros([KEYS, SPAN_E], dtype=ACC)
    for here in range(0, size, KEYS if OF_QUERIES else ROWS):
        if OF_QUERIES:
            rows, keys = mine, here + tl.arange(0, KEYS).to(tl.int64)
        else:
            rows, keys = here + tl.arange(0, ROWS).to(tl.int64), mine
        queries = block(q, start, rows, size, head, HEADS, D, SPAN_D, ACC)
        each = block(k, start, keys, size, head, HEADS, D, SPAN_D, ACC)
        kind = kinds_of(kinds, first, rows, keys, size, TERM or SUMS)
        z = visible(
            SCALE * dot(queries, tl.trans(each), ACC), hops, bias, term, kind, first, start, rows, keys, size, head,
            reach, HEADS, KINDS, LIMITED, LOST, BIASED, TERM, ACC,
        )  # fmt: skip
        places, known = (start + rows) * HEADS + head, rows < size
        weights = tl.exp(z - tl.load(log_sum + places, mask=known, other=0.0)[:, None])
        values = block(v, start, keys, size, head, HEADS, E, SPAN_E, ACC)
        incoming = block(grad, start, rows, size, head, HEADS, E, SPAN_E, ACC)
        change = dot(incoming, tl.trans(values), ACC)
        if SUMS:
            change += looked_up(grad_sums, kind, start, rows, keys, size, head, HEADS, KINDS, ACC)
        change = dropped(change, seed, places[:, None], keys[None, :], row_length, P, KEEP).to(ACC)
        change = weights * (change - tl.load(along + places, mask=known, other=0.0)[:, None])
        if OF_QUERIES:
            of_q += SCALE * dot(change, each, ACC)
            if TERM:
                of_term += summed(change, kind, KINDS, SPAN_T, ACC)
            if GRAD_BIAS:
                real = known[:, None] & (keys < size)[None, :]
                pairs = first + rows[:, None] * size + keys[None, :]
                tl.store(dbias + pairs * HEADS + head, change.to(dbias.dtype.element_ty), mask=real)
        else:
            weights = dropped(weights, seed, places[:, None], keys[None, :], row_length, P, KEEP).to(ACC)
            of_v += dot(tl.trans(weights), incoming, ACC)
            of_k += SCALE * dot(tl.trans(change), queries, ACC)
    if OF_QUERIES:
        put(dq, of_q, start, mine, size, head, HEADS, D, SPAN_D)
        if TERM:
            put(dterm, of_term, start, mine, size, head, HEADS, KINDS, SPAN_T)
    else:
        put(dk, of_k, start, mine, size, head, HEADS, D, SPAN_D)
        put(dv, of_v, start, mine, size, head, HEADS, E, SPAN_E)
