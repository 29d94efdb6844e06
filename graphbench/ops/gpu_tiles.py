"""Tiles of a ragged batch, products and dropout for the Triton kernels of pair attentions.

A program handles a tile of queries (or of keys) of one graph and head and goes through all keys (or queries) of the
graph, so that nothing of size n^2 is stored and sums have a fixed order. Everything is computed in ``ACC``.

Names in all kernels:

* arguments without a prefix are pointers to whole tensors, capitals are known to the compiler;
* ``i_`` indices: ``i_g`` graph, ``i_h`` head, ``i_t`` first row and ``i_s`` first key of a tile, ``i_c`` first column;
* ``bos`` is the first row of the graph in the batch, ``n`` its number of rows;
* ``o_`` offsets: ``o_q`` rows and ``o_k`` keys of a tile within the graph, ``o_c`` columns, ``o_x`` of a tensor x;
* ``m_`` masks, ``p_`` pointers into a tensor, ``b_`` values in registers, their shape in a comment (none: a number).
"""

import triton
import triton.language as tl

TRITON = tuple(int(part) for part in triton.__version__.split(".")[:2])
"""(major, minor) of the compiler: each PyTorch has its own, 2.7 has 3.3 and 2.11 has 3.6."""
# Triton 3.3 fails on interleaved tiles that are transposed later: there random numbers cost four times as much.
_INTERLEAVE = tl.constexpr(TRITON >= (3, 4))
# Of Philox, whose numbers pass all tests of BigCrush from seven rounds on (Salmon et al., 2011).
_ROUNDS = tl.constexpr(8)


@triton.jit
def locate(tiles, ptr, SIZE: tl.constexpr):
    """(graph, its first row in the batch, its rows, [SIZE] rows of the tile within the graph).

    Rows within a graph are 32 bits wide, what counts in the whole batch or in pairs of rows is 64.
    """
    i_g = tl.load(tiles + 2 * tl.program_id(0))
    bos = tl.load(ptr + i_g)
    return i_g, bos, (tl.load(ptr + i_g + 1) - bos).to(tl.int32), first_of_tile(tiles) + tl.arange(0, SIZE)


@triton.jit
def load_rows(
    x, bos, o_q, n, i_h, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ACC: tl.constexpr, first=0
):  # fmt: skip
    """[rows, SPAN] of one head; 0 where there is nothing. Rows are HEADS heads apart, whoever these belong to.

    ``first``: column that ``x`` points to.
    """
    o_c = tl.arange(0, SPAN)
    p_x = x + (bos * HEADS + i_h) * WIDTH + o_q[:, None] * (HEADS * WIDTH) + o_c[None, :]
    return tl.load(p_x, mask=(o_q < n)[:, None] & (first + o_c < WIDTH)[None, :], other=0.0).to(ACC)


@triton.jit
def store_rows(x, b_x, bos, o_q, n, i_h, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """Inverse of :func:`load_rows`."""
    o_c = tl.arange(0, SPAN)
    p_x = x + (bos * HEADS + i_h) * WIDTH + o_q[:, None] * (HEADS * WIDTH) + o_c[None, :]
    tl.store(p_x, b_x.to(x.dtype.element_ty), mask=(o_q < n)[:, None] & (o_c < WIDTH)[None, :])


@triton.jit
def row_dots(
    a, b, bos, o_q, n, i_h, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, DOT: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """[rows] products of the rows of two tensors, of one head; of the second as :func:`dot_as` reads it."""
    b_a = load_rows(a, bos, o_q, n, i_h, HEADS, WIDTH, SPAN, ACC)
    b_b = load_rows(b, bos, o_q, n, i_h, HEADS, WIDTH, SPAN, ACC)
    return tl.sum(b_a * as_read(b_b, DOT, ACC), 1)


@triton.jit
def copy_rows(source, target, o_target, o_source, m_rows, WIDTH: tl.constexpr):
    """Rows of a tensor to rows of another, of any type; wide ones in pieces."""
    SPAN: tl.constexpr = min(triton.next_power_of_2(WIDTH), 32)
    for start in tl.static_range(0, WIDTH, SPAN):
        o_c = start + tl.arange(0, SPAN)
        mask = m_rows[:, None] & (o_c < WIDTH)[None, :]
        b_x = tl.load(source + o_source[:, None] * WIDTH + o_c[None, :], mask)
        tl.store(target + o_target[:, None] * WIDTH + o_c[None, :], b_x.to(target.dtype.element_ty), mask)


@triton.jit
def load_tile(x, o_n, o_c, rows, s_x, WIDTH: tl.constexpr, ACC: tl.constexpr):
    """[rows, columns] of rows that are ``s_x`` apart; 0 where there is nothing."""
    mask = (o_n < rows)[:, None] & (o_c < WIDTH)[None, :]
    return tl.load(x + o_n[:, None] * s_x + o_c[None, :], mask=mask, other=0.0).to(ACC)


@triton.jit
def store_tile(x, b_x, o_n, o_c, rows, WIDTH: tl.constexpr):
    """Inverse of :func:`load_tile`, without a distance between rows."""
    mask = (o_n < rows)[:, None] & (o_c < WIDTH)[None, :]
    tl.store(x + o_n[:, None] * WIDTH + o_c[None, :], b_x.to(x.dtype.element_ty), mask=mask)


@triton.jit
def store_output(
    x, exact, b_x, bos, o_q, n, i_h, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr
):  # fmt: skip
    """:func:`store_rows`, and unrounded for the backward pass where half precision rounds.

    Gradients of scores are differences from the product of output and gradient, which may be small against it.
    """
    store_rows(x, b_x, bos, o_q, n, i_h, HEADS, WIDTH, SPAN)
    if exact.dtype.element_ty != x.dtype.element_ty:
        store_rows(exact, b_x, bos, o_q, n, i_h, HEADS, WIDTH, SPAN)


@triton.jit
def parts_of_tf32(b_x):
    """``b_x`` as a sum of two: its upper 11 bits, rounded, and the rest, of which the tensor cores read 11 more."""
    b_upper = ((b_x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return b_upper, b_x - b_upper


@triton.jit
def as_read(b_x, DOT: tl.constexpr, ACC: tl.constexpr):
    """``b_x`` as :func:`dot_as` reads it."""
    if DOT == "tf32":
        b_read = (b_x.to(tl.int32, bitcast=True) & -0x2000).to(tl.float32, bitcast=True)
    else:
        b_read = b_x.to(DOT).to(ACC)
    return b_read


@triton.jit
def dot(b_a, b_b, ACC: tl.constexpr):
    """``a b`` without loss of precision, whatever precision torch's products have."""
    return dot_as(b_a, b_b, ACC, ACC)


@triton.jit
def dot_as(b_a, b_b, DOT: tl.constexpr, ACC: tl.constexpr):
    """``a b`` of operands in a type: bfloat16 is one product of the tensor cores, with sums in ACC.

    So is "tf32", no type of memory, in which the tensor cores read the upper bits of fp32: ten of the fraction.
    fp32 are three products of parts in tf32, without that of the lower ones: the error of fp32 at two to three times
    its speed (README of focal attention). Operands that are infinite give NaN.
    """
    if DOT == "tf32":
        b_sum = tl.dot(b_a, b_b, input_precision="tf32")
    elif DOT == tl.float32:
        b_a1, b_a2 = parts_of_tf32(b_a.to(DOT))
        b_b1, b_b2 = parts_of_tf32(b_b.to(DOT))
        b_sum = tl.dot(b_a1, b_b2, input_precision="tf32")
        b_sum = tl.dot(b_a2, b_b1, b_sum, input_precision="tf32")
        b_sum = tl.dot(b_a1, b_b1, b_sum, input_precision="tf32")
    else:
        b_sum = tl.dot(b_a.to(DOT), b_b.to(DOT), input_precision="ieee", out_dtype=ACC)
    return b_sum


@triton.jit
def row_products(
    a, b, bos, o_a, o_b, n, i_h, HEADS_A: tl.constexpr, HEADS_B: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    DOT: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """[rows of a, rows of b] products of rows, 64 columns at a time: parts of tf32 of more do not fit the registers."""
    COLUMNS: tl.constexpr = SPAN if SPAN < 64 else 64
    b_sum = tl.zeros([o_a.shape[0], o_b.shape[0]], dtype=ACC)
    for i_c in range(0, SPAN, COLUMNS):
        b_a = load_rows(a + i_c, bos, o_a, n, i_h, HEADS_A, WIDTH, COLUMNS, ACC, i_c)
        b_b = load_rows(b + i_c, bos, o_b, n, i_h, HEADS_B, WIDTH, COLUMNS, ACC, i_c)
        b_sum += dot_as(b_a, tl.trans(b_b), DOT, ACC)
    return b_sum


@triton.jit
def tile_products(
    x, b_x, y, b_y, bos, o_x, o_y, n, i_h, HEADS_X: tl.constexpr, HEADS_Y: tl.constexpr, WIDTH: tl.constexpr,
    SPAN: tl.constexpr, WIDE: tl.constexpr, DOT: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """[rows of x, rows of y] products of rows: of those in registers, or where they are too WIDE, read by columns."""
    if WIDE:
        b_products = row_products(x, y, bos, o_x, o_y, n, i_h, HEADS_X, HEADS_Y, WIDTH, SPAN, DOT, ACC)
    else:
        b_products = dot_as(b_x, tl.trans(b_y), DOT, ACC)
    return b_products


@triton.jit
def store_normalizer(normalizer, b_max, b_sum, o_rows, m_rows):
    """Largest score of a row, and 1 over the sum of exponentials above it, (.., 2), for :func:`softmax_again`.

    Not one logarithm: beside a score of 1e4 it has lost the digits that tell how many keys share it.
    """
    p_row = normalizer + 2 * o_rows
    tl.store(p_row, tl.where(b_max == float("-inf"), 0.0, b_max), mask=m_rows)
    tl.store(p_row + 1, 1.0 / b_sum, mask=m_rows)


@triton.jit
def softmax_again(b_z, normalizer, o_rows, m_rows):
    """Weights from scores, by what :func:`store_normalizer` has kept of their rows, one per row or column of scores."""
    p_row = normalizer + 2 * o_rows
    b_p = tl.exp(b_z - tl.load(p_row, mask=m_rows, other=0.0))
    return b_p * tl.load(p_row + 1, mask=m_rows, other=0.0)


@triton.jit
def first_of_tile(tiles):
    """First row of the tile within its graph."""
    return tl.load(tiles + 2 * tl.program_id(0) + 1).to(tl.int32)


@triton.jit
def kept(seed, o_rows, first, P: tl.constexpr, SIZE: tl.constexpr, INTERLEAVE: tl.constexpr = _INTERLEAVE):
    """[rows, SIZE] which entries ``first .. first + SIZE`` of each row dropout leaves: 1 - P of them.

    Row and entry alone decide, whatever the tiles are, whose first entries are multiples of four: four neighbours share
    a counter, whose random number has four words. The seed is read from memory: a captured launch repeats its numbers
    for ever.
    """
    SHARE: tl.constexpr = 4 if INTERLEAVE else 1
    o_entry = first // SHARE + tl.arange(0, SIZE // SHARE)
    o_n = o_rows[:, None]
    b_counter = tl.broadcast_to((o_entry // (4 // SHARE)).to(tl.uint32)[None, :], [o_rows.shape[0], SIZE // SHARE])
    b_low, b_high = o_n.to(tl.uint32) + b_counter * 0, (o_n >> 32).to(tl.uint32) + b_counter * 0
    b_0, b_1, b_2, b_3 = tl.philox(tl.load(seed), b_low, b_high, b_counter, b_counter * 0, _ROUNDS)
    if INTERLEAVE:
        b_words = tl.interleave(tl.interleave(b_0, b_2), tl.interleave(b_1, b_3))
    else:
        o_word = (o_entry % 4)[None, :]
        b_words = tl.where(o_word < 2, tl.where(o_word == 0, b_0, b_1), tl.where(o_word == 2, b_2, b_3))
    return tl.uint_to_uniform_float(b_words) >= P


@triton.jit
def kept_of_tile(
    seed, bos, o_own, o_other, i_own, i_other, i_h, OF_QUERIES: tl.constexpr, HEADS: tl.constexpr, P: tl.constexpr
):  # fmt: skip
    """[own, other] which pairs dropout leaves, of a tile of queries and keys or, its transpose, of keys and queries."""
    if OF_QUERIES:
        m_kept = kept(seed, (bos + o_own) * HEADS + i_h, i_other, P, o_other.shape[0])
    else:
        m_kept = tl.trans(kept(seed, (bos + o_other) * HEADS + i_h, i_own, P, o_own.shape[0]))
    return m_kept


@triton.jit
def dropout(b_x, seed, o_rows, first, P: tl.constexpr, KEEP: tl.constexpr):
    """[rows, keys] with entries set to 0 with probability P and the others times KEEP; keys begin with ``first``."""
    if P == 0.0:
        return b_x
    return tl.where(kept(seed, o_rows, first, P, b_x.shape[1]), b_x * KEEP, 0.0)
