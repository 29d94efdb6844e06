"""Triton kernels of attention with a decay mask. Notation and equations: README; prefixes, tiles: ``ops/gpu_tiles.py``.

``bop`` is the first pair of the graph in the batch, ``b_start`` the start point of the head; q, k and v are PARTS parts
of one tensor (N, PARTS, H, .), or three tensors with PARTS = 1.
"""

import triton
import triton.language as tl

from graphbench.ops.decay_attention.mask import FAR, NEVER
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

_FAR, _NEVER = tl.constexpr(FAR), tl.constexpr(NEVER)
_TOKEN, _UNREACHABLE = tl.constexpr(TOKEN), tl.constexpr(UNREACHABLE)


@triton.jit
def damped(
    b_s, index, bop, i_q, i_k, n, b_start,
    LOG: tl.constexpr, SLOPE: tl.constexpr, END: tl.constexpr, LINEAR: tl.constexpr, ADDED: tl.constexpr,
    FULL: tl.constexpr, CLOSED: tl.constexpr, HOPS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """(z, M, dM/ds) of pairs, with ln M for M where it is ``ADDED``; z is minus infinity where nothing is seen."""
    m_qk = (i_q < n) & (i_k < n)
    b_index = tl.load(index + bop + i_q.to(tl.int64) * n + i_k, mask=m_qk, other=0)
    if HOPS:
        m_lost, m_kept = b_index == _UNREACHABLE, b_index == _TOKEN
    else:
        m_lost, m_kept = b_index == float("inf"), b_index != b_index
    if FULL:
        m_kept = m_kept | m_lost
    b_beyond = tl.where(m_lost, _FAR, b_index.to(ACC)) - b_start
    b_one = tl.zeros_like(b_beyond) + 1.0
    b_step = tl.where(b_beyond > 0.0, b_one, b_one * SLOPE)  # of LeakyReLU
    b_x = b_beyond * b_step
    if LINEAR:
        b_fall = END - b_start
        b_width = tl.maximum(b_fall, 1.0)
        b_m = tl.maximum(1.0 - b_x / b_width, 0.0)
        b_dm = b_step / b_width - tl.where(b_fall >= 1.0, b_x / (b_width * b_width), 0.0)
        b_dm = tl.where(b_m > 0.0, b_dm, 0.0)
        if ADDED:
            b_positive = tl.where(b_m > 0.0, b_m, 1.0)
            b_dm = b_dm / b_positive
            b_m = tl.where(b_m > 0.0, tl.log(b_positive), _NEVER)
    else:
        b_m = tl.where(b_x > 0.0, b_one * _NEVER, 0.0) if LOG == _NEVER else LOG * b_x
        b_dm = (0.0 if LOG == _NEVER else -LOG) * b_step
        if not ADDED:
            b_m = tl.exp(b_m)
            b_dm = b_dm * b_m
    b_m = tl.where(m_kept, 0.0 if ADDED else 1.0, b_m)
    b_dm = tl.where(m_kept, 0.0, b_dm)
    b_z = b_s + b_m if ADDED else b_s * b_m
    m_seen = m_qk & (m_lost == 0) if CLOSED else m_qk
    return tl.where(m_seen, b_z, float("-inf")), b_m, b_dm


@triton.jit
def decay_attention_forward(
    q, k, v, index, starts, ptr, pair_ptr, tiles, out, exact, normalizer, seed,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, PARTS: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    LOG: tl.constexpr, SLOPE: tl.constexpr, END: tl.constexpr, LINEAR: tl.constexpr, ADDED: tl.constexpr,
    FULL: tl.constexpr, CLOSED: tl.constexpr, HOPS: tl.constexpr,
):  # fmt: skip
    """Output and normalizer (:func:`store_normalizer`) of a tile of queries."""
    i_g, bos, n, o_q = locate(tiles, ptr, ROWS)
    i_h, bop = tl.program_id(1), tl.load(pair_ptr + i_g)
    b_start = tl.load(starts + i_h).to(ACC)
    # As the backward pass: scores that differ by a rounding are weights that differ by their size times that.
    WIDE: tl.constexpr = SPAN_D > 64 and DOT == tl.float32
    # [ROWS, SPAN_D]
    b_q = load_rows(q, bos, o_q, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
    o_rows = (bos + o_q) * HEADS + i_h
    # [ROWS]
    b_max, b_sum = tl.zeros([ROWS], dtype=ACC) - float("inf"), tl.zeros([ROWS], dtype=ACC)
    # [ROWS, SPAN_E]
    b_out = tl.zeros([ROWS, SPAN_E], dtype=ACC)
    for i_s in range(0, n, KEYS):
        o_k = i_s + tl.arange(0, KEYS)
        # [ROWS, KEYS]
        b_k = load_rows(k, bos, o_k, n, i_h, PARTS * HEADS, D, SPAN_D, ACC)
        b_s = SCALE * tile_products(
            q, b_q, k, b_k, bos, o_q, o_k, n, i_h, PARTS * HEADS, PARTS * HEADS, D, SPAN_D, WIDE, DOT, ACC
        )
        i_q, i_k = o_q[:, None], o_k[None, :]
        b_z, _b_m, _b_dm = damped(
            b_s, index, bop, i_q, i_k, n, b_start, LOG, SLOPE, END, LINEAR, ADDED, FULL, CLOSED, HOPS, ACC
        )
        b_new = tl.maximum(b_max, tl.max(b_z, 1))
        b_base = tl.where(b_new == float("-inf"), 0.0, b_new)
        # Rounded as in the product with v, so that the weights of a row still sum to one.
        b_p, b_shrink = as_read(tl.exp(b_z - b_base[:, None]), DOT, ACC), tl.exp(b_max - b_base)
        b_sum = b_sum * b_shrink + tl.sum(b_p, 1)
        b_p = dropout(b_p, seed, o_rows, i_s, P, KEEP)
        # [KEYS, SPAN_E]
        b_v = load_rows(v, bos, o_k, n, i_h, PARTS * HEADS, E, SPAN_E, ACC)
        b_out = b_out * b_shrink[:, None] + dot_as(b_p.to(ACC), b_v, DOT, ACC)
        b_max = b_new
    b_sum = tl.where(b_sum == 0.0, 1.0, b_sum)
    store_output(out, exact, b_out / b_sum[:, None], bos, o_q, n, i_h, HEADS, E, SPAN_E)
    store_normalizer(normalizer, b_max, b_sum, o_rows, o_q < n)


@triton.jit
def tile_gradients(
    q, k, v, index, starts, ptr, pair_ptr, tiles, out, grad, normalizer, dq, dk, dv, parts, seed,
    OF_QUERIES: tl.constexpr,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, PARTS: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    LOG: tl.constexpr, SLOPE: tl.constexpr, END: tl.constexpr, LINEAR: tl.constexpr, ADDED: tl.constexpr,
    FULL: tl.constexpr, CLOSED: tl.constexpr, HOPS: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of queries, and its part of that of the start points; or of a tile of keys and values."""
    WIDE: tl.constexpr = (SPAN_D > 64 or SPAN_E > 64) and DOT == tl.float32
    i_g, bos, n, o_own = locate(tiles, ptr, ROWS)
    i_h, bop = tl.program_id(1), tl.load(pair_ptr + i_g)
    b_start = tl.load(starts + i_h).to(ACC)
    # Scores are products of the first, weights' gradients of the second: p_x of the tile, p_y of the other side.
    if OF_QUERIES:
        p_x1, p_x2, p_y1, p_y2 = q, grad, k, v
        b_along = row_dots(out, grad, bos, o_own, n, i_h, HEADS, E, SPAN_E, DOT, ACC)[:, None]
    else:
        p_x1, p_x2, p_y1, p_y2 = k, v, q, grad
    HEADS_X2: tl.constexpr = HEADS if OF_QUERIES else PARTS * HEADS
    HEADS_Y2: tl.constexpr = PARTS * HEADS if OF_QUERIES else HEADS
    # [ROWS, SPAN], [ROWS]
    b_dx1, b_dv = tl.zeros([ROWS, SPAN_D], dtype=ACC), tl.zeros([ROWS, SPAN_E], dtype=ACC)
    b_dstart = tl.zeros([ROWS], dtype=ACC)
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
            b_along = row_dots(out, grad, bos, o_y, n, i_h, HEADS, E, SPAN_E, DOT, ACC)[None, :]
        b_s *= SCALE
        b_z, b_m, b_dm = damped(
            b_s, index, bop, i_q, i_k, n, b_start, LOG, SLOPE, END, LINEAR, ADDED, FULL, CLOSED, HOPS, ACC
        )
        b_p = softmax_again(b_z, normalizer, (bos + i_q) * HEADS + i_h, i_q < n)
        if P > 0.0:
            m_kept = kept_of_tile(seed, bos, o_own, o_y, first_of_tile(tiles), i_s, i_h, OF_QUERIES, HEADS, P)
            b_dp = tl.where(m_kept, b_dp * KEEP, 0.0).to(ACC)
        b_dz = b_p * (b_dp - b_along)
        b_dx1 += SCALE * dot_as(b_dz if ADDED else b_dz * b_m, b_y1, DOT, ACC)
        if OF_QUERIES:
            b_dstart += tl.sum(b_dz * b_dm if ADDED else b_dz * b_s * b_dm, 1)
        else:
            if P > 0.0:
                b_p = tl.where(m_kept, b_p * KEEP, 0.0).to(ACC)
            b_dv += dot_as(b_p, b_y2, DOT, ACC)
    store_rows(dq if OF_QUERIES else dk, b_dx1, bos, o_own, n, i_h, PARTS * HEADS, D, SPAN_D)
    if OF_QUERIES:
        tl.store(parts + tl.program_id(0) * HEADS + i_h, tl.sum(b_dstart, 0))
    else:
        store_rows(dv, b_dv, bos, o_own, n, i_h, PARTS * HEADS, E, SPAN_E)


@triton.jit
def decay_attention_backward(
    q, k, v, index, starts, ptr, pair_ptr, tiles, out, grad, normalizer, dq, dk, dv, parts, seed,
    SCALE: tl.constexpr, P: tl.constexpr, KEEP: tl.constexpr, HEADS: tl.constexpr, PARTS: tl.constexpr,
    D: tl.constexpr, E: tl.constexpr, SPAN_D: tl.constexpr, SPAN_E: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
    LOG: tl.constexpr, SLOPE: tl.constexpr, END: tl.constexpr, LINEAR: tl.constexpr, ADDED: tl.constexpr,
    FULL: tl.constexpr, CLOSED: tl.constexpr, HOPS: tl.constexpr,
):  # fmt: skip
    """All gradients: programs of tiles of keys, whose work is longer, and of tiles of queries.

    ``parts`` (tiles, HEADS) of the gradient of the start points are to be added up.
    """
    if tl.program_id(2) == 0:
        tile_gradients(
            q, k, v, index, starts, ptr, pair_ptr, tiles, out, grad, normalizer, dq, dk, dv, parts, seed, False,
            SCALE, P, KEEP, HEADS, PARTS, D, E, SPAN_D, SPAN_E, ROWS, KEYS, DOT, ACC, LOG, SLOPE, END, LINEAR, ADDED,
            FULL, CLOSED, HOPS,
        )  # fmt: skip
    else:
        tile_gradients(
            q, k, v, index, starts, ptr, pair_ptr, tiles, out, grad, normalizer, dq, dk, dv, parts, seed, True,
            SCALE, P, KEEP, HEADS, PARTS, D, E, SPAN_D, SPAN_E, ROWS, KEYS, DOT, ACC, LOG, SLOPE, END, LINEAR, ADDED,
            FULL, CLOSED, HOPS,
        )  # fmt: skip
