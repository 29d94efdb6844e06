"""Triton kernels of focal attention. Notation and equations: README; prefixes of names and tiles: ``ops/gpu_tiles.py``.

Relations of pairs arrive as numbers per row and kind, (N, H, T): ``term`` is what a kind adds to the scores of its row,
``sums`` what the row's weights of a kind add up to. ``bop`` is the first pair of the graph in the batch; q, k
and v are PARTS parts of one tensor (N, PARTS, H, .), or three tensors with PARTS = 1.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import (
    dot_as,
    dropout,
    first_of_tile,
    load_rows,
    locate,
    row_dots,
    row_products,
    softmax_again,
    store_normalizer,
    store_output,
    store_rows,
)
from graphbench.structures.pairs import TOKEN, UNREACHABLE

_TOKEN, _UNREACHABLE = tl.constexpr(TOKEN), tl.constexpr(UNREACHABLE)


@triton.jit
def load_kinds(kinds, bop, o_q, o_k, n, RELATED: tl.constexpr):
    """[ROWS, KEYS] number of the relation of every pair; 0 where there is none."""
    if RELATED:
        m_qk = (o_q < n)[:, None] & (o_k < n)[None, :]
        return tl.load(kinds + bop + o_q[:, None] * n + o_k[None, :], mask=m_qk, other=0).to(tl.int32)
    return (o_q[:, None] + o_k[None, :]).to(tl.int32) * 0


@triton.jit
def load_of_kind(x, b_kind, bos, o_q, o_k, n, i_h, HEADS: tl.constexpr, KINDS: tl.constexpr, ACC: tl.constexpr):
    """[ROWS, KEYS] what the row has for the kind of the pair, from (N, H, T)."""
    m_qk = (o_q < n)[:, None] & (o_k < n)[None, :]
    o_x = (((bos + o_q) * HEADS + i_h) * KINDS)[:, None] + b_kind
    return tl.load(x + o_x, mask=m_qk, other=0.0).to(ACC)


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
    b_s, hops, bias, term, b_kind, bop, bos, o_q, o_k, n, i_h, b_max_hops,
    HEADS: tl.constexpr, KINDS: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """[ROWS, KEYS] scores with what is added to them; minus infinity where the head does not see."""
    m_qk = (o_q < n)[:, None] & (o_k < n)[None, :]
    o_qk = bop + o_q[:, None] * n + o_k[None, :]
    m_seen = m_qk
    if LIMITED:
        b_hops = tl.load(hops + o_qk, mask=m_qk, other=0).to(tl.int32)
        m_near = (b_hops <= b_max_hops) | (b_hops == _TOKEN)
        if LOST:
            m_near = m_near | (b_hops == _UNREACHABLE)
        m_seen = m_qk & m_near
    if TERM:
        b_s += load_of_kind(term, b_kind, bos, o_q, o_k, n, i_h, HEADS, KINDS, ACC)
    if BIASED:
        b_s += tl.load(bias + o_qk * HEADS + i_h, mask=m_qk, other=0.0).to(ACC)
    return tl.where(m_seen, b_s, float("-inf"))


@triton.jit
def forward(
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
    if not WIDE:
        # [ROWS, SPAN_D]
        b_q = load_rows(q, bos, o_q, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
    o_rows = (bos + o_q) * HEADS + i_h
    # [ROWS]
    b_max, b_sum = tl.zeros([ROWS], dtype=ACC) - float("inf"), tl.zeros([ROWS], dtype=ACC)
    # [ROWS, SPAN]
    b_out, b_sums = tl.zeros([ROWS, SPAN_E], dtype=ACC), tl.zeros([ROWS, SPAN_T], dtype=ACC)
    for i_s in range(0, n, KEYS):
        o_k = i_s + tl.arange(0, KEYS).to(tl.int64)
        # [ROWS, KEYS]
        b_kind = load_kinds(kinds, bop, o_q, o_k, n, TERM or SUMS)
        if WIDE:
            b_s = SCALE * row_products(q, k, bos, o_q, o_k, n, i_h, PARTS * HEADS, PARTS * HEADS, D, SPAN_D, DOT, ACC)
        else:
            b_k = load_rows(k, bos, o_k, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
            b_s = SCALE * dot_as(b_q, tl.trans(b_k), DOT, ACC)
        b_z = masked_scores(
            b_s, hops, bias, term, b_kind, bop, bos, o_q, o_k, n, i_h, b_max_hops,
            HEADS, KINDS, LIMITED, LOST, BIASED, TERM, ACC,
        )  # fmt: skip
        b_new = tl.maximum(b_max, tl.max(b_z, 1))
        b_base = tl.where(b_new == float("-inf"), 0.0, b_new)
        # Rounded as in the product with v, so that the weights of a row still sum to one.
        b_p, b_shrink = tl.exp(b_z - b_base[:, None]).to(DOT).to(ACC), tl.exp(b_max - b_base)
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
    SUMS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """[rows] product of what a query gave and its gradient."""
    b_along = row_dots(out, grad, bos, o_q, n, i_h, HEADS, E, SPAN_E, ACC)
    if SUMS:
        b_along += row_dots(sums, grad_sums, bos, o_q, n, i_h, HEADS, KINDS, SPAN_T, ACC)
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
    i_g, bos, n, o_own = locate(tiles, ptr, ROWS if OF_QUERIES else KEYS)
    i_own = first_of_tile(tiles)
    i_h, bop = tl.program_id(1), tl.load(pair_ptr + i_g)
    b_max_hops = tl.load(max_hops + i_h)
    # [ROWS, SPAN]
    b_dq, b_dterm = tl.zeros([ROWS, SPAN_D], dtype=ACC), tl.zeros([ROWS, SPAN_T], dtype=ACC)
    # [KEYS, SPAN]
    b_dk, b_dv = tl.zeros([KEYS, SPAN_D], dtype=ACC), tl.zeros([KEYS, SPAN_E], dtype=ACC)
    if OF_QUERIES:
        b_along = along_output(
            out, sums, grad, grad_sums, bos, o_own, n, i_h, HEADS, E, SPAN_E, KINDS, SPAN_T, SUMS, ACC
        )
    for i_s in range(0, n, KEYS if OF_QUERIES else ROWS):
        if OF_QUERIES:
            o_q, o_k, i_k = o_own, i_s + tl.arange(0, KEYS).to(tl.int64), i_s
        else:
            o_q, o_k, i_k = i_s + tl.arange(0, ROWS).to(tl.int64), o_own, i_own
        # [ROWS, KEYS]
        if WIDE:
            b_s = row_products(q, k, bos, o_q, o_k, n, i_h, PARTS * HEADS, PARTS * HEADS, D, SPAN_D, DOT, ACC)
        else:
            # [ROWS, SPAN_D], [KEYS, SPAN_D]
            b_q = load_rows(q, bos, o_q, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
            b_k = load_rows(k, bos, o_k, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
            b_s = dot_as(b_q, tl.trans(b_k), DOT, ACC)
        b_kind = load_kinds(kinds, bop, o_q, o_k, n, TERM or SUMS)
        b_z = masked_scores(
            SCALE * b_s, hops, bias, term, b_kind, bop, bos, o_q, o_k, n, i_h, b_max_hops,
            HEADS, KINDS, LIMITED, LOST, BIASED, TERM, ACC,
        )  # fmt: skip
        o_rows, m_q = (bos + o_q) * HEADS + i_h, o_q < n
        b_p = softmax_again(b_z, normalizer, o_rows, m_q)
        # [ROWS, KEYS]
        if WIDE:
            b_dp = row_products(grad, v, bos, o_q, o_k, n, i_h, HEADS, PARTS * HEADS, E, SPAN_E, DOT, ACC)
        else:
            # [KEYS, SPAN_E], [ROWS, SPAN_E]
            b_v = load_rows(v, bos, o_k, n, i_h, PARTS * HEADS, E, SPAN_E, ACC)
            b_grad = load_rows(grad, bos, o_q, n, i_h, HEADS, E, SPAN_E, ACC)
            b_dp = dot_as(b_grad, tl.trans(b_v), DOT, ACC)
        if SUMS:
            b_dp += load_of_kind(grad_sums, b_kind, bos, o_q, o_k, n, i_h, HEADS, KINDS, ACC)
        b_dp = dropout(b_dp, seed, o_rows, i_k, P, KEEP).to(ACC)
        if not OF_QUERIES:
            b_along = along_output(
                out, sums, grad, grad_sums, bos, o_q, n, i_h, HEADS, E, SPAN_E, KINDS, SPAN_T, SUMS, ACC
            )
        b_dz = b_p * (b_dp - b_along[:, None])
        if OF_QUERIES:
            if WIDE:
                b_k = load_rows(k, bos, o_k, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
            b_dq += SCALE * dot_as(b_dz, b_k, DOT, ACC)
            if TERM:
                b_dterm += sum_by_kind(b_dz, b_kind, KINDS, SPAN_T, ACC)
            if GRAD_BIAS:
                m_qk = m_q[:, None] & (o_k < n)[None, :]
                o_qk = bop + o_q[:, None] * n + o_k[None, :]
                tl.store(dbias + o_qk * HEADS + i_h, b_dz.to(dbias.dtype.element_ty), mask=m_qk)
        else:
            b_p = dropout(b_p, seed, o_rows, i_k, P, KEEP).to(ACC)
            if WIDE:
                b_q = load_rows(q, bos, o_q, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
                b_grad = load_rows(grad, bos, o_q, n, i_h, HEADS, E, SPAN_E, ACC)
            b_dv += dot_as(tl.trans(b_p), b_grad, DOT, ACC)
            b_dk += SCALE * dot_as(tl.trans(b_dz), b_q, DOT, ACC)
    if OF_QUERIES:
        store_rows(dq, b_dq, bos, o_own, n, i_h, PARTS * HEADS, D, SPAN_D)
        if TERM:
            store_rows(dterm, b_dterm, bos, o_own, n, i_h, HEADS, KINDS, SPAN_T)
    else:
        store_rows(dk, b_dk, bos, o_own, n, i_h, PARTS * HEADS, D, SPAN_D)
        store_rows(dv, b_dv, bos, o_own, n, i_h, PARTS * HEADS, E, SPAN_E)


@triton.jit(do_not_specialize=["num_query_tiles"])
def backward(
    q, k, v, hops, kinds, term, bias, max_hops, ptr, pair_ptr, query_tiles, key_tiles, num_query_tiles,
    out, sums, grad, grad_sums, normalizer, dq, dk, dv, dterm, dbias, seed,
    GRAD_BIAS: tl.constexpr,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, PARTS: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    KINDS: tl.constexpr, SPAN_T: tl.constexpr, LIMITED: tl.constexpr, LOST: tl.constexpr, BIASED: tl.constexpr,
    TERM: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """All gradients: programs of the tiles of queries, behind them those of the tiles of keys."""
    if tl.program_id(0) < num_query_tiles:
        tile_gradients(
            q, k, v, hops, kinds, term, bias, max_hops, ptr, pair_ptr, query_tiles, out, sums, grad, grad_sums,
            normalizer, dq, dk, dv, dterm, dbias, seed, True, GRAD_BIAS, SCALE, P, KEEP, HEADS, PARTS, D, E, SPAN_D,
            SPAN_E, ROWS, KEYS, DOT, ACC, KINDS, SPAN_T, LIMITED, LOST, BIASED, TERM, SUMS,
        )  # fmt: skip
    else:
        # So that the number of the program is that of its tile.
        p_tiles = key_tiles - 2 * num_query_tiles
        tile_gradients(
            q, k, v, hops, kinds, term, bias, max_hops, ptr, pair_ptr, p_tiles, out, sums, grad, grad_sums,
            normalizer, dq, dk, dv, dterm, dbias, seed, False, GRAD_BIAS, SCALE, P, KEEP, HEADS, PARTS, D, E, SPAN_D,
            SPAN_E, ROWS, KEYS, DOT, ACC, KINDS, SPAN_T, LIMITED, LOST, BIASED, TERM, SUMS,
        )  # fmt: skip
