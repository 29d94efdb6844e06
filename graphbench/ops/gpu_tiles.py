"""What the Triton kernels of pair attentions share: tiles of a ragged batch, products, dropout.

A program handles a tile of queries (or of keys) of one graph and head and goes through all keys (or queries) of the
graph, so that nothing of size n^2 is stored and sums have a fixed order. Everything is computed in ``ACC``.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

# Three products of 10-bit parts on the tensor cores: the error of fp32 at twice to three times its speed (README of
# focal attention). Where a result decides what is computed, as in sparse_flow, products are plain fp32.
_PRECISION = tl.constexpr("tf32x3")


@triton.jit
def locate(tiles, ptr, SIZE: tl.constexpr):
    """(graph, its first row, its rows, rows of the tile counted from that)."""
    graph = tl.load(tiles + 2 * tl.program_id(0))
    start = tl.load(ptr + graph)
    rows = tl.load(tiles + 2 * tl.program_id(0) + 1) + tl.arange(0, SIZE).to(tl.int64)
    return graph, start, tl.load(ptr + graph + 1) - start, rows


@triton.jit
def block(x, start, rows, size, head, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ACC: tl.constexpr):
    """(rows, SPAN) of one head; 0 where there is nothing."""
    cols = tl.arange(0, SPAN)
    places = ((start + rows)[:, None] * HEADS + head) * WIDTH + cols[None, :]
    return tl.load(x + places, mask=(rows < size)[:, None] & (cols < WIDTH)[None, :], other=0.0).to(ACC)


@triton.jit
def put(x, values, start, rows, size, head, HEADS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """Inverse of :func:`block`."""
    cols = tl.arange(0, SPAN)
    places = ((start + rows)[:, None] * HEADS + head) * WIDTH + cols[None, :]
    tl.store(x + places, values.to(x.dtype.element_ty), mask=(rows < size)[:, None] & (cols < WIDTH)[None, :])


@triton.jit
def dot(a, b, ACC: tl.constexpr):
    """``a b`` without loss of precision."""
    return tl.dot(a, b, input_precision=_PRECISION, out_dtype=ACC)


@triton.jit
def dropped(x, seed, rows, keys, row_length, P: tl.constexpr, SCALE: tl.constexpr):
    """``x`` with entries set to 0 with probability P and the others times SCALE; the pair alone decides."""
    if P == 0.0:
        return x
    # 64-bit counter: one stream per call, whatever the tiles are.
    return tl.where(tl.rand(seed, rows * row_length + keys) >= P, x * SCALE, 0.0)
