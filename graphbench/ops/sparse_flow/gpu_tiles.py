"""What every Triton kernel of this folder needs: scores of a tile, one row problem, dropout. Notation of the README.

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
def absorb(top, total, x):
    """Running maximum and sum of ``exp(x - maximum)`` of every row, grown by a tile; start from (-inf, 0)."""
    grown = tl.maximum(top, tl.max(x, 1))
    return grown, total * tl.exp(top - grown) + tl.sum(tl.exp(x - grown[:, None]), 1)


@triton.jit
def row_problem(s_max, minus_max, minus_sum, t_max, t_sum, t_min, lam, INV_ALPHA: tl.constexpr, LIMIT: tl.constexpr):
    """(log kappa, tau, t_ref, phi_ref, beta, budget) of every row from its reductions.

    The reference is the smallest friction, or exp(-LIMIT) where that would vanish beside the others.
    """
    log_kappa = s_max + minus_max + tl.log(minus_sum)
    log_friction = t_max + tl.log(t_sum)
    tau = log_friction - log_kappa
    t_ref = tl.maximum(t_min, tau - LIMIT)
    phi_ref = tl.exp(tl.minimum(t_ref - tau, LIMIT))
    beta = INV_ALPHA * tl.exp(-log_kappa)
    return log_kappa, tau, t_ref, phi_ref, beta, 1.0 - lam * INV_ALPHA * tl.exp(t_ref - log_friction)


@triton.jit
def friction(t, t_ref, phi_ref, LIMIT: tl.constexpr):
    """(phi = kappa f, what it exceeds phi_ref by); phi is capped near exp(LIMIT), where kappa itself would overflow.

    The excess is phi_ref (exp(t - t_ref) - 1): the error of phi_ref is common to a row and harmless, and the
    difference does not cancel. A score that is computed again may round below t_ref, hence the maximum.
    """
    u = tl.minimum(t - t_ref, tl.minimum(LIMIT - tl.log(phi_ref), LIMIT + 15.0))
    series = u * (1 + u / 2 * (1 + u / 3 * (1 + u / 4 * (1 + u / 5 * (1 + u / 6)))))
    if t.dtype == tl.float64:  # the series would have to be longer; exp is exact to 1e-16 there
        grown = tl.exp(u) - 1.0
    else:
        grown = tl.where(u < 0.3, series, tl.exp(u) - 1.0)
    return phi_ref * (grown + 1.0), tl.maximum(phi_ref * grown, 0.0)


@triton.jit
def too_high(delta, flow, budget):
    """(whether delta lets clearly more flow than the budget, a value one rounding step below delta).

    Where D is large, the root of a piece can round to a value that still holds a key the root itself does not. Newton
    would end there with flows far above 1.
    """
    if delta.dtype == tl.float64:
        return flow > budget * (1 + 1e-9), delta * (1 - 4e-16)
    else:
        return flow > budget * (1 + 1e-3), delta * (1 - 2.4e-7)


@triton.jit
def room(delta, d):
    """max(delta - d, 0), with NaN where the scores are NaN."""
    return tl.maximum(delta - d, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def dropped(x, seed, rows, keys, row_length, P: tl.constexpr, SCALE: tl.constexpr):
    """``x`` with entries set to 0 with probability P and the others times SCALE; the pair alone decides."""
    if P == 0.0:
        return x
    # 64-bit counter: one stream per call, whatever the tiles are.
    return tl.where(tl.rand(seed, rows * row_length + keys) >= P, x * SCALE, 0.0)
