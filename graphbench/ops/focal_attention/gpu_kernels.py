"""Triton kernels of focal attention. Notation and equations: README; prefixes of names and tiles: ``ops/gpu_tiles.py``.

Relations of pairs arrive as numbers per row and kind, (N, H, T): ``term`` is what a kind adds to the scores of its row,
``sums`` what the row's weights of a kind add up to. ``bop`` is the first pair of the graph in the batch; q, k
and v are PARTS parts of one tensor (N, PARTS, H, .), or three tensors with PARTS = 1.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import (
    as_read,
    dot_as,
    dropout,
    first_of_tile,
    kept_of_tile,
    load_rows,
    locate,
    row_dots,
    softmax_again,
    store_normalizer,
    store_output,
    store_rows,
    tile_products,
)
from graphbench.structures.pairs import TOKEN, UNREACHABLE

_TOKEN, _UNREACHABLE = tl.constexpr(TOKEN), tl.constexpr(UNREACHABLE)


@triton.jit
def load_kinds(kinds, bop, i_q, i_k, n, RELATED: tl.constexpr):
    """Number of the relation of every pair; 0 where there is none."""
    if RELATED:
        return tl.load(kinds + bop + i_q.to(tl.int64) * n + i_k, mask=(i_q < n) & (i_k < n), other=0).to(tl.int32)
    return (i_q + i_k) * 0


@triton.jit
def load_of_kind(x, b_kind, bos, i_q, i_k, n, i_h, HEADS: tl.constexpr, KINDS: tl.constexpr, ACC: tl.constexpr):
    """Entry of every pair's row for the kind of the pair, from (N, H, T)."""
    o_x = ((bos + i_q) * HEADS + i_h) * KINDS + b_kind
    return tl.load(x + o_x, mask=(i_q < n) & (i_k < n), other=0.0).to(ACC)


@triton.jit
def sum_by_kind(b_x, b_kind, KINDS: tl.constexpr, SPAN: tl.constexpr, ACC: tl.constexpr):
    """[ROWS, SPAN] sums of the pairs of every kind; one kind after the other, so that the order is fixed."""
    o_c = tl.arange(0, SPAN)[None, :]
    b_sums = tl.zeros([b_x.shape[0], SPAN], dtype=ACC)
    for kind in range(0, KINDS):
        b_of_kind = tl.sum(tl.where(b_kind == kind, b_x, 0.0), 1)
        b_sums += tl.where(o_c == kind, b_of_kind[:, None], 0.0)
    return b_sums


@triton.jit
def masked_scores(
    b_s, hops, bias, term, b_kind, bop, bos, i_q, i_k, n, i_h, b_max_hops,
    HEADS: tl.constexpr, KINDS: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Scores of pairs with what is added to them; minus infinity where the head does not see."""
    m_qk = (i_q < n) & (i_k < n)
    o_qk = bop + i_q.to(tl.int64) * n + i_k
    m_seen = m_qk
    if LIMITED:
        b_hops = tl.load(hops + o_qk, mask=m_qk, other=0).to(tl.int32)
        m_near = (b_hops <= b_max_hops) | (b_hops == _TOKEN)
        if LOST:
            m_near = m_near | (b_hops == _UNREACHABLE)
        m_seen = m_qk & m_near
    if TERM:
        b_s += load_of_kind(term, b_kind, bos, i_q, i_k, n, i_h, HEADS, KINDS, ACC)
    if BIASED:
        b_s += tl.load(bias + o_qk * HEADS + i_h, mask=m_qk, other=0.0).to(ACC)
    return tl.where(m_seen, b_s, float("-inf"))


@triton.jit
def focal_attention_forward(
    q, k, v, hops, kinds, term, bias, max_hops, ptr, pair_ptr, tiles, out, exact, sums, normalizer, seed,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, PARTS: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    KINDS: tl.constexpr, SPAN_T: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """Output, sums of weights by kind, and normalizer (:func:`store_normalizer`) of a tile of queries."""
    i_g, bos, n, o_q = locate(tiles, ptr, ROWS)
    i_h, bop = tl.program_id(1), tl.load(pair_ptr + i_g)
    b_max_hops = tl.load(max_hops + i_h)
    # As the backward pass: scores that differ by a rounding are weights that differ by their size times that.
    WIDE: tl.constexpr = SPAN_D > 64 and DOT == tl.float32
    # [ROWS, SPAN_D]
    b_q = load_rows(q, bos, o_q, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
    o_rows = (bos + o_q) * HEADS + i_h
    # [ROWS]
    b_max, b_sum = tl.zeros([ROWS], dtype=ACC) - float("inf"), tl.zeros([ROWS], dtype=ACC)
    # [ROWS, SPAN]
    b_out, b_sums = tl.zeros([ROWS, SPAN_E], dtype=ACC), tl.zeros([ROWS, SPAN_T], dtype=ACC)
    for i_s in range(0, n, KEYS):
        o_k = i_s + tl.arange(0, KEYS)
        i_q, i_k = o_q[:, None], o_k[None, :]
        # [ROWS, KEYS]
        b_kind = load_kinds(kinds, bop, i_q, i_k, n, TERM or SUMS)
        b_k = load_rows(k, bos, o_k, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
        b_s = SCALE * tile_products(
            q, b_q, k, b_k, bos, o_q, o_k, n, i_h, PARTS * HEADS, PARTS * HEADS, D, SPAN_D, WIDE, DOT, ACC
        )
        b_z = masked_scores(
            b_s, hops, bias, term, b_kind, bop, bos, i_q, i_k, n, i_h, b_max_hops,
            HEADS, KINDS, LIMITED, LOST, BIASED, TERM, ACC,
        )  # fmt: skip
        b_new = tl.maximum(b_max, tl.max(b_z, 1))
        b_base = tl.where(b_new == float("-inf"), 0.0, b_new)
        # Rounded as in the product with v, so that the weights of a row still sum to one.
        b_p, b_shrink = as_read(tl.exp(b_z - b_base[:, None]), DOT, ACC), tl.exp(b_max - b_base)
        b_sum = b_sum * b_shrink + tl.sum(b_p, 1)
        b_p = dropout(b_p, seed, o_rows, i_s, P, KEEP).to(ACC)
        # [KEYS, SPAN_E]
        b_v = load_rows(v, bos, o_k, n, i_h, PARTS * HEADS, E, SPAN_E, ACC)
        b_out = b_out * b_shrink[:, None] + dot_as(b_p, b_v, DOT, ACC)
        if SUMS:
            b_sums = b_sums * b_shrink[:, None] + sum_by_kind(b_p, b_kind, KINDS, SPAN_T, ACC)
        b_max = b_new
    b_sum = tl.where(b_sum == 0.0, 1.0, b_sum)
    store_output(out, exact, b_out / b_sum[:, None], bos, o_q, n, i_h, HEADS, E, SPAN_E)
    if SUMS:
        store_rows(sums, b_sums / b_sum[:, None], bos, o_q, n, i_h, HEADS, KINDS, SPAN_T)
    store_normalizer(normalizer, b_max, b_sum, o_rows, o_q < n)


@triton.jit
def along_output(
    out, sums, grad, grad_sums, bos, o_q, n, i_h,
    HEADS: tl.constexpr, E: tl.constexpr, SPAN_E: tl.constexpr, KINDS: tl.constexpr, SPAN_T: tl.constexpr,
    SUMS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """[rows] product of what a query gave and its gradient."""
    b_along = row_dots(out, grad, bos, o_q, n, i_h, HEADS, E, SPAN_E, DOT, ACC)
    if SUMS:
        b_along += row_dots(sums, grad_sums, bos, o_q, n, i_h, HEADS, KINDS, SPAN_T, ACC, ACC)
    return b_along


@triton.jit
def tile_gradients(
    q, k, v, hops, kinds, term, bias, max_hops, ptr, pair_ptr, tiles, out, sums, grad, grad_sums, normalizer,
    dq, dk, dv, dterm, dbias, seed,
    OF_QUERIES: tl.constexpr, GRAD_BIAS: tl.constexpr,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, PARTS: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    KINDS: tl.constexpr, SPAN_T: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of queries, their terms and the bias of their pairs; or of a tile of keys and values."""
    WIDE: tl.constexpr = (SPAN_D > 64 or SPAN_E > 64) and DOT == tl.float32
    i_g, bos, n, o_own = locate(tiles, ptr, ROWS)
    i_h, bop = tl.program_id(1), tl.load(pair_ptr + i_g)
    b_max_hops = tl.load(max_hops + i_h)
    # Scores are products of the first, weights' gradients of the second: p_x of the tile, p_y of the other side.
    if OF_QUERIES:
        p_x1, p_x2, p_y1, p_y2 = q, grad, k, v
        b_along = along_output(
            out, sums, grad, grad_sums, bos, o_own, n, i_h, HEADS, E, SPAN_E, KINDS, SPAN_T, SUMS, DOT, ACC
        )[:, None]
    else:
        p_x1, p_x2, p_y1, p_y2 = k, v, q, grad
    HEADS_X2: tl.constexpr = HEADS if OF_QUERIES else PARTS * HEADS
    HEADS_Y2: tl.constexpr = PARTS * HEADS if OF_QUERIES else HEADS
    # [ROWS, SPAN]
    b_dx1, b_dterm = tl.zeros([ROWS, SPAN_D], dtype=ACC), tl.zeros([ROWS, SPAN_T], dtype=ACC)
    b_dv = tl.zeros([ROWS, SPAN_E], dtype=ACC)
    b_x1 = load_rows(p_x1, bos, o_own, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
    b_x2 = load_rows(p_x2, bos, o_own, n, i_h, HEADS_X2, E, SPAN_E, ACC)
    for i_s in range(0, n, KEYS):
        o_y = i_s + tl.arange(0, KEYS)
        # [KEYS, SPAN]
        b_y1 = load_rows(p_y1, bos, o_y, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
        b_y2 = load_rows(p_y2, bos, o_y, n, i_h, HEADS_Y2, E, SPAN_E, ACC)
        # [ROWS, KEYS]
        b_s = tile_products(
            p_x1, b_x1, p_y1, b_y1, bos, o_own, o_y, n, i_h, PARTS * HEADS, PARTS * HEADS, D, SPAN_D, WIDE, DOT, ACC
        )
        b_dp = tile_products(
            p_x2, b_x2, p_y2, b_y2, bos, o_own, o_y, n, i_h, HEADS_X2, HEADS_Y2, E, SPAN_E, WIDE, DOT, ACC
        )
        if OF_QUERIES:
            i_q, i_k = o_own[:, None], o_y[None, :]
        else:
            i_q, i_k = o_y[None, :], o_own[:, None]
            b_along = along_output(
                out, sums, grad, grad_sums, bos, o_y, n, i_h, HEADS, E, SPAN_E, KINDS, SPAN_T, SUMS, DOT, ACC
            )[None, :]
        b_kind = load_kinds(kinds, bop, i_q, i_k, n, TERM or SUMS)
        b_z = masked_scores(
            SCALE * b_s, hops, bias, term, b_kind, bop, bos, i_q, i_k, n, i_h, b_max_hops,
            HEADS, KINDS, LIMITED, LOST, BIASED, TERM, ACC,
        )  # fmt: skip
        b_p = softmax_again(b_z, normalizer, (bos + i_q) * HEADS + i_h, i_q < n)
        if SUMS:
            b_dp += load_of_kind(grad_sums, b_kind, bos, i_q, i_k, n, i_h, HEADS, KINDS, ACC)
        if P > 0.0:
            m_kept = kept_of_tile(seed, bos, o_own, o_y, first_of_tile(tiles), i_s, i_h, OF_QUERIES, HEADS, P)
            b_dp = tl.where(m_kept, b_dp * KEEP, 0.0).to(ACC)
        b_dz = b_p * (b_dp - b_along)
        b_dx1 += SCALE * dot_as(b_dz, b_y1, DOT, ACC)
        if OF_QUERIES:
            if TERM:
                b_dterm += sum_by_kind(b_dz, b_kind, KINDS, SPAN_T, ACC)
            if GRAD_BIAS:
                o_qk = bop + i_q.to(tl.int64) * n + i_k
                tl.store(dbias + o_qk * HEADS + i_h, b_dz.to(dbias.dtype.element_ty), mask=(i_q < n) & (i_k < n))
        else:
            if P > 0.0:
                b_p = tl.where(m_kept, b_p * KEEP, 0.0).to(ACC)
            b_dv += dot_as(b_p, b_y2, DOT, ACC)
    store_rows(dq if OF_QUERIES else dk, b_dx1, bos, o_own, n, i_h, PARTS * HEADS, D, SPAN_D)
    if OF_QUERIES:
        if TERM:
            store_rows(dterm, b_dterm, bos, o_own, n, i_h, HEADS, KINDS, SPAN_T)
    else:
        store_rows(dv, b_dv, bos, o_own, n, i_h, PARTS * HEADS, E, SPAN_E)


@triton.jit
def focal_attention_backward(
    q, k, v, hops, kinds, term, bias, max_hops, ptr, pair_ptr, tiles, out, sums, grad, grad_sums, normalizer,
    dq, dk, dv, dterm, dbias, seed,
    GRAD_BIAS: tl.constexpr,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, PARTS: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    KINDS: tl.constexpr, SPAN_T: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """All gradients: programs of tiles of keys, whose work is longer, and of tiles of queries."""
    if tl.program_id(2) == 0:
        tile_gradients(
            q, k, v, hops, kinds, term, bias, max_hops, ptr, pair_ptr, tiles, out, sums, grad, grad_sums, normalizer,
            dq, dk, dv, dterm, dbias, seed, False, GRAD_BIAS, SCALE, P, KEEP, HEADS, PARTS, D, E, SPAN_D, SPAN_E, ROWS,
            KEYS, DOT, ACC, KINDS, SPAN_T, LIMITED, LOST, BIASED, TERM, SUMS,
        )  # fmt: skip
    else:
        tile_gradients(
            q, k, v, hops, kinds, term, bias, max_hops, ptr, pair_ptr, tiles, out, sums, grad, grad_sums, normalizer,
            dq, dk, dv, dterm, dbias, seed, True, GRAD_BIAS, SCALE, P, KEEP, HEADS, PARTS, D, E, SPAN_D, SPAN_E, ROWS,
            KEYS, DOT, ACC, KINDS, SPAN_T, LIMITED, LOST, BIASED, TERM, SUMS,
        )  # fmt: skip
