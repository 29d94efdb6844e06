"""Triton kernels of linear attention. Notation and equations: README, "On a GPU".

A program handles rows of one graph and head. Rows of x are (rows, heads, width), numbers per row (rows, heads),
matrices (graphs, heads, E + 1, D), whose last row belongs to the sum of weights. Everything is computed in ``ACC``,
whatever it is stored in.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from graphbench.ops.linear_attention.denominator import FLOOR

# Products of fp32 are exact fp32 products: what attention adds to v is small beside it.
_PRECISION = tl.constexpr("ieee")
_FLOOR = tl.constexpr(FLOOR)


@triton.jit
def locate(tiles, ptr):
    """(graph, first row of the tile, end of the graph); rows count through the batch."""
    graph = tl.load(tiles + 2 * tl.program_id(0))
    start = tl.load(ptr + graph)
    return graph, start + tl.load(tiles + 2 * tl.program_id(0) + 1), tl.load(ptr + graph + 1)


@triton.jit
def places(rows, end, head, first, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """Offsets of columns ``first .. first + SPAN`` of some rows of one head, and which of them exist."""
    cols = first + tl.arange(0, SPAN)
    return (rows[:, None] * HEADS + head) * WIDTH + cols[None, :], (rows < end)[:, None] & (cols < WIDTH)[None, :]


@triton.jit
def block(x, rows, end, head, first, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ACC: tl.constexpr):
    """Those columns; 0 where there are none."""
    offsets, mask = places(rows, end, head, first, HEADS, WIDTH, SPAN)
    return tl.load(x + offsets, mask=mask, other=0.0).to(ACC)


@triton.jit
def vector(x, first, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """(1, SPAN) entries from ``first`` on of a vector; 0 beyond ``WIDTH``."""
    cols = first + tl.arange(0, SPAN)
    return tl.load(x + cols, mask=cols < WIDTH, other=0.0)[None, :]


@triton.jit
def matrix(x, row, col, E: tl.constexpr, D: tl.constexpr, COLS: tl.constexpr):
    """(COLS, COLS) entries from (row, col) on of an (E + 1, D) matrix without its last row."""
    rows, cols = row + tl.arange(0, COLS), col + tl.arange(0, COLS)
    mask = (rows < E)[:, None] & (cols < D)[None, :]
    return tl.load(x + rows[:, None] * D + cols[None, :], mask=mask, other=0.0)


@triton.jit
def dot(a, b, total, ACC: tl.constexpr):
    """``total + a b``."""
    return tl.dot(a, b, total, input_precision=_PRECISION, out_dtype=ACC)


@triton.jit
def flow(
    x,
    context,
    col,
    total,
    rows,
    end,
    head,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    COLS: tl.constexpr,
    ACC: tl.constexpr,
):
    """``total`` plus columns ``col .. col + COLS`` of ``x context^T``. Short products need few registers."""
    for first in range(0, D, COLS):
        part = block(x, rows, end, head, first, HEADS, D, COLS, ACC)
        total = dot(part, tl.trans(matrix(context, col, first, E, D, COLS)), total, ACC)
    return total


@triton.jit
def totals(
    q,
    k,
    v,
    ptr,
    tiles,
    out,
    WIDTH: tl.constexpr,
    V_WIDTH: tl.constexpr,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    ACC: tl.constexpr,
):
    """(2 + V_WIDTH,) sums over the rows of a chunk: squares of q, squares of k, v; all heads side by side."""
    _graph, first, end = locate(tiles, ptr)
    end = tl.minimum(end, first + CHUNK)
    out += tl.program_id(0).to(tl.int64) * (2 + V_WIDTH)
    q_square, k_square = tl.zeros([ROWS, COLS], dtype=ACC), tl.zeros([ROWS, COLS], dtype=ACC)
    for start in range(first, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        for col in range(0, WIDTH, COLS):
            q_part = block(q, rows, end, 0, col, 1, WIDTH, COLS, ACC)
            k_part = block(k, rows, end, 0, col, 1, WIDTH, COLS, ACC)
            q_square += q_part * q_part
            k_square += k_part * k_part
    tl.store(out, tl.sum(tl.sum(q_square, 1), 0))
    tl.store(out + 1, tl.sum(tl.sum(k_square, 1), 0))
    for col in range(0, V_WIDTH, COLS):
        total = tl.zeros([COLS], dtype=ACC)
        for start in range(first, end, ROWS):
            rows = start + tl.arange(0, ROWS)
            total += tl.sum(block(v, rows, end, 0, col, 1, V_WIDTH, COLS, ACC), 0)
        cols = col + tl.arange(0, COLS)
        tl.store(out + 2 + cols, total, mask=cols < V_WIDTH)


@triton.jit
def cross(
    a,
    b,
    centre,
    last,
    ptr,
    tiles,
    out,
    CENTRED: tl.constexpr,
    HEADS: tl.constexpr,
    B_HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    SPAN: tl.constexpr,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    ACC: tl.constexpr,
):
    """(E + 1, D) sums over the rows of a chunk: ``[b - centre | 1]^T a``, or ``[b | last]^T a`` where not CENTRED."""
    graph, first, end = locate(tiles, ptr)
    head, b_head, col = tl.program_id(1), tl.program_id(1) % B_HEADS, tl.program_id(2) * COLS
    end = tl.minimum(end, first + CHUNK)
    total, weight = tl.zeros([COLS, SPAN], dtype=ACC), tl.zeros([SPAN], dtype=ACC)
    middle = vector(centre + (graph * B_HEADS + b_head) * E, col, E, COLS)
    for start in range(first, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        left = block(a, rows, end, head, 0, HEADS, D, SPAN, ACC)
        right = block(b, rows, end, b_head, col, B_HEADS, E, COLS, ACC)
        if CENTRED:
            right -= middle  # rows beyond the end meet zeros of a
            weight += tl.sum(left, 0)
        else:
            weight += tl.sum(left * tl.load(last + rows * HEADS + head, mask=rows < end, other=0.0)[:, None], 0)
        # In pieces of ROWS: one long accumulation loses digits that the gradients need.
        total += dot(tl.trans(right), left, tl.zeros([COLS, SPAN], dtype=ACC), ACC)
    out += (tl.program_id(0).to(tl.int64) * HEADS + head) * (E + 1) * D
    offsets, mask = places(col + tl.arange(0, COLS), E, 0, 0, 1, D, SPAN)
    tl.store(out + offsets, total, mask=mask)
    if tl.program_id(2) == 0:
        cols = tl.arange(0, SPAN)
        tl.store(out + E * D + cols, weight, mask=cols < D)


@triton.jit
def attend(
    q,
    v,
    centre,
    context,
    bound,
    grad,
    ptr,
    tiles,
    out,
    slope,
    bound_grad,
    BASE: tl.constexpr,
    FORWARD: tl.constexpr,
    HEADS: tl.constexpr,
    V_HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    ACC: tl.constexpr,
):
    """Forward: the output. Backward: p = grad / denominator, and gradients of the sum of weights and of its bound."""
    graph, first, end = locate(tiles, ptr)
    head, v_head = tl.program_id(1), tl.program_id(1) % V_HEADS
    rows = first + tl.arange(0, ROWS)
    context += (graph * HEADS + head) * (E + 1) * D
    weight, along, common = tl.zeros([ROWS], ACC), tl.zeros([ROWS], ACC), tl.zeros([ROWS], ACC)
    for col in range(0, D, COLS):
        weight += tl.sum(block(q, rows, end, head, col, HEADS, D, COLS, ACC) * vector(context + E * D, col, D, COLS), 1)
    share = 1.0
    if BASE == "none":
        least = _FLOOR * tl.load(bound + rows * HEADS + head, mask=rows < end, other=0.0)
        sign = tl.where(weight < 0.0, -1.0, 1.0).to(ACC)
        total = sign * tl.maximum(tl.abs(weight), least)
        total = tl.where(total == 0.0, 1.0, total)
        # Where the floor holds, the weights of a row no longer sum to one.
        share = (weight / total)[:, None]
    else:
        total = 1.0 + weight
    for col in range(0, E, COLS):
        middle = vector(centre + (graph * V_HEADS + v_head) * E, col, E, COLS)
        rest = tl.zeros([ROWS, COLS], dtype=ACC)  # the mean of v - centre, which "uniform" adds, is zero
        if BASE == "self":
            rest += block(v, rows, end, v_head, col, V_HEADS, E, COLS, ACC) - middle
        rest = flow(q, context, col, rest, rows, end, head, HEADS, D, E, COLS, ACC) / total[:, None]
        offsets, mask = places(rows, end, head, col, HEADS, E, COLS)
        if FORWARD:
            tl.store(out + offsets, (middle * share + rest).to(out.dtype.element_ty), mask=mask)
        else:
            p = tl.load(grad + offsets, mask=mask, other=0.0).to(ACC) / total[:, None]
            tl.store(out + offsets, p, mask=mask)
            along += tl.sum(p * rest, 1)
            common += tl.sum(p * middle, 1)
    if not FORWARD:
        down = -along
        if BASE == "none":
            floored = tl.abs(weight) < least
            pull = tl.where(floored, -_FLOOR * sign * (common * weight / total + along), 0.0)
            tl.store(bound_grad + rows * HEADS + head, pull, mask=rows < end)
            down = tl.where(floored | (weight == 0.0), common, down)
        tl.store(slope + rows * HEADS + head, down, mask=rows < end)


@triton.jit
def row_gradient(
    x,
    b,
    centre,
    last,
    gradient,
    pull,
    ptr,
    tiles,
    out,
    CENTRED: tl.constexpr,
    HEADS: tl.constexpr,
    B_HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    ACC: tl.constexpr,
):
    """Gradient of q or k: ``[b | last] gradient - pull x``, with b and last as in :func:`cross`.

    ``pull`` is (graphs, 2): of q and, where CENTRED, of k.
    """
    graph, first, end = locate(tiles, ptr)
    head, b_head = tl.program_id(1), tl.program_id(1) % B_HEADS
    rows = first + tl.arange(0, ROWS)
    gradient += (graph * HEADS + head) * (E + 1) * D
    norm = tl.load(pull + 2 * graph + (1 if CENTRED else 0))
    for col in range(0, D, COLS):
        total = tl.zeros([ROWS, COLS], dtype=ACC) + vector(gradient + E * D, col, D, COLS)
        if not CENTRED:
            total *= tl.load(last + rows * HEADS + head, mask=rows < end, other=0.0)[:, None]
        for row in range(0, E, COLS):
            right = block(b, rows, end, b_head, row, B_HEADS, E, COLS, ACC)
            if CENTRED:
                right -= vector(centre + (graph * B_HEADS + b_head) * E, row, E, COLS)
            total = dot(right, matrix(gradient, row, col, E, D, COLS), total, ACC)
        total -= norm * block(x, rows, end, head, col, HEADS, D, COLS, ACC)
        offsets, mask = places(rows, end, head, col, HEADS, D, COLS)
        tl.store(out + offsets, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def value_gradient(
    k,
    p,
    gradient,
    common,
    ptr,
    tiles,
    out,
    BASE: tl.constexpr,
    HEADS: tl.constexpr,
    V_HEADS: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    ACC: tl.constexpr,
):
    """Gradient of v: ``k gradient^T`` and what the base adds, summed over the heads that share v."""
    graph, first, end = locate(tiles, ptr)
    v_head = tl.program_id(1)
    rows = first + tl.arange(0, ROWS)
    for col in range(0, E, COLS):
        total = tl.zeros([ROWS, COLS], dtype=ACC)
        if BASE == "uniform":
            total += vector(common + (graph * V_HEADS + v_head) * E, col, E, COLS)
        for head in range(v_head, HEADS, V_HEADS):
            here = gradient + (graph * HEADS + head) * (E + 1) * D
            total = flow(k, here, col, total, rows, end, head, HEADS, D, E, COLS, ACC)
            if BASE == "self":
                total += block(p, rows, end, head, col, HEADS, E, COLS, ACC)
        offsets, mask = places(rows, end, v_head, col, V_HEADS, E, COLS)
        tl.store(out + offsets, total.to(out.dtype.element_ty), mask=mask)
