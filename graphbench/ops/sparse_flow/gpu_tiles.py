"""What every Triton kernel of this folder needs: scores of a tile, one row problem. Notation of the README.

A tile has query rows on one axis and keys on the other. Row vectors arrive with the axis of the keys already added,
so that the same functions serve tiles of both orientations.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

# Products of fp32 are exact fp32 products: tf32 keeps 10 bits, and the active set depends on differences of scores.
_PRECISION = tl.constexpr("ieee")


@triton.jit
def locate(tiles, ptr, BLOCK: tl.constexpr):
    """(graph, first row of the graph, its size, rows of this tile counted within the graph)."""
    graph = tl.load(tiles + 2 * tl.program_id(0))
    start = tl.load(ptr + graph)
    size = tl.load(ptr + graph + 1) - start
    rows = tl.load(tiles + 2 * tl.program_id(0) + 1) + tl.arange(0, BLOCK)
    return graph, start, size, rows


@triton.jit
def products(
    a,
    b,
    a_rows,
    b_rows,
    size,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    DOT: tl.constexpr,
    ACC: tl.constexpr,
):
    """(rows of a, rows of b) inner products; pointers stand on the graph's first row. Rows beyond ``size`` are 0.

    The width is walked in chunks, so that it needs no power of two and little shared memory.
    """
    total = tl.zeros([a_rows.shape[0], b_rows.shape[0]], dtype=ACC)
    for first in range(0, WIDTH, CHUNK):
        cols = first + tl.arange(0, CHUNK)
        left = tl.load(
            a + a_rows[:, None] * (HEADS * WIDTH) + cols[None, :],
            mask=(a_rows < size)[:, None] & (cols < WIDTH)[None, :],
            other=0.0,
        )
        right = tl.load(
            b + b_rows[None, :] * (HEADS * WIDTH) + cols[:, None],
            mask=(b_rows < size)[None, :] & (cols < WIDTH)[:, None],
            other=0.0,
        )
        total = tl.dot(left.to(DOT), right.to(DOT), total, input_precision=_PRECISION, out_dtype=ACC)
    return total


@triton.jit
def weighted_rows(
    weights,
    x,
    rows,
    first,
    size,
    total,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    SPAN: tl.constexpr,
    DOT: tl.constexpr,
    ACC: tl.constexpr,
):
    """``total`` plus ``weights`` times columns ``first .. first + SPAN`` of the given rows of ``x``."""
    cols = first + tl.arange(0, SPAN)
    part = tl.load(
        x + rows[:, None] * (HEADS * WIDTH) + cols[None, :],
        mask=(rows < size)[:, None] & (cols < WIDTH)[None, :],
        other=0.0,
    )
    return tl.dot(weights.to(DOT), part.to(DOT), total, input_precision=_PRECISION, out_dtype=ACC)


@triton.jit
def store_rows(x, rows, first, size, value, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """Writes columns ``first .. first + SPAN`` of rows that exist."""
    cols = first + tl.arange(0, SPAN)
    mask = (rows < size)[:, None] & (cols < WIDTH)[None, :]
    tl.store(x + rows[:, None] * (HEADS * WIDTH) + cols[None, :], value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def store_state(state, rows, size, plane, s_max, t_ref, log_kappa, phi_ref, delta, key):
    """What the backward kernels rebuild every flow from: six planes, one number per row and head in each.

    S (maximum of s), t_ref, log kappa, phi_ref, delta and the number of the reference key (exact in float32 up to
    2^24 keys).
    """
    ok = rows < size
    tl.store(state + rows, s_max, mask=ok)
    tl.store(state + plane + rows, t_ref, mask=ok)
    tl.store(state + 2 * plane + rows, log_kappa, mask=ok)
    tl.store(state + 3 * plane + rows, phi_ref, mask=ok)
    tl.store(state + 4 * plane + rows, delta, mask=ok)
    tl.store(state + 5 * plane + rows, key.to(delta.dtype), mask=ok)


@triton.jit
def absorb(top, total, x):
    """Running maximum and sum of ``exp(x - maximum)`` of every row, grown by a tile; start from (-inf, 0)."""
    grown = tl.maximum(top, tl.max(x, 1))
    return grown, total * tl.exp(top - grown) + tl.sum(tl.exp(x - grown[:, None]), 1)


@triton.jit
def row_problem(s_max, minus_max, minus_sum, t_max, t_sum, INV_ALPHA: tl.constexpr):
    """(spread, ratio, log kappa, beta) of every row: phi = ratio exp(t - t_max + spread), the fewest roundings."""
    spread = s_max + minus_max
    return spread, minus_sum / t_sum, spread + tl.log(minus_sum), INV_ALPHA * tl.exp(-spread) / minus_sum


@triton.jit
def reference(t, t_max, t_sum, spread, ratio, lam, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr):
    """(t_ref, phi_ref, budget) of rows whose unknown is counted from the friction of score ``t``.

    phi is capped at exp(LIMIT), where kappa itself would overflow, and taken as exp(-LIMIT) where it would vanish
    beside the others.
    """
    extra = tl.log(ratio)
    t_ref = tl.maximum(t, t_max - spread - extra - LIMIT)
    phi_ref = ratio * tl.exp(tl.minimum(t_ref - t_max + spread, LIMIT - extra))
    return t_ref, phi_ref, 1.0 - lam * INV_ALPHA * tl.exp(t_ref - t_max) / t_sum


@triton.jit
def friction(t, t_ref, phi_ref, LIMIT: tl.constexpr):
    """(phi = kappa f, what it exceeds phi_ref by).

    The excess is phi_ref (exp(t - t_ref) - 1): the error of phi_ref is common to a row and harmless, and the
    difference does not cancel.
    """
    grown = tl.exp(tl.minimum(t - t_ref, tl.minimum(LIMIT - tl.log(phi_ref), LIMIT + 15.0)))
    return phi_ref * grown, phi_ref * (grown - 1.0)


@triton.jit
def room(delta, d):
    """max(delta - d, 0), with NaN where the scores are NaN."""
    return tl.maximum(delta - d, 0.0, propagate_nan=tl.PropagateNan.ALL)
