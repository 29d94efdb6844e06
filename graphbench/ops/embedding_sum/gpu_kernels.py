"""Triton kernels of sums of embeddings. Prefixes of names: ``ops/gpu_tiles.py``; equations: README.

``first`` is the first row of every table in the tables written one after the other.
"""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import dot


@triton.jit
def locate_category(index, first, o_n, m_n, i_c, COLUMNS: tl.constexpr):
    """([ROWS] row of the category in all tables, [ROWS] whether its table has it)."""
    b_first, b_last = tl.load(first + i_c), tl.load(first + i_c + 1)
    b_category = tl.load(index + o_n * COLUMNS + i_c, mask=m_n, other=0)
    return b_first + b_category, (b_category >= 0) & (b_category < b_last - b_first)


@triton.jit(do_not_specialize=["num_rows"])
def embedding_sum_forward(
    index, table, first, out, num_rows,
    COLUMNS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Some rows and channels of the sums."""
    o_n = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    o_c = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    m_n, m_c = o_n < num_rows, o_c < WIDTH
    # [ROWS, SPAN]
    b_out = tl.zeros([ROWS, SPAN], dtype=ACC)
    for i_c in tl.static_range(COLUMNS):  # so that all are loaded at once
        b_row, m_known = locate_category(index, first, o_n, m_n, i_c, COLUMNS)
        m_read = (m_n & m_known)[:, None] & m_c[None, :]
        b_part = tl.load(table + b_row[:, None] * WIDTH + o_c[None, :], mask=m_read, other=0.0).to(ACC)
        b_out += tl.where(m_known[:, None], b_part, float("nan"))
    p_out = out + o_n[:, None] * WIDTH + o_c[None, :]
    tl.store(p_out, b_out.to(out.dtype.element_ty), mask=m_n[:, None] & m_c[None, :])


@triton.jit(do_not_specialize=["num_rows", "total", "share"])
def embedding_sum_backward(
    index, grad, first, parts, num_rows, total, stride, share,
    COLUMNS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
    VOCABULARY: tl.constexpr,
):  # fmt: skip
    """Gradient of some rows and channels of the tables, as far as it comes from ``share`` rows of the batch.

    A product with the number of times that a row of the batch reads a row of the tables: the order is fixed.
    """
    i_share, o_v = tl.program_id(0).to(tl.int64), tl.program_id(1) * VOCABULARY + tl.arange(0, VOCABULARY)
    o_c = tl.program_id(2) * SPAN + tl.arange(0, SPAN)
    m_c = o_c < WIDTH
    # [VOCABULARY, SPAN]
    b_sum = tl.zeros([VOCABULARY, SPAN], dtype=ACC)
    for i_s in range(0, share, ROWS):
        o_n = i_share * share + i_s + tl.arange(0, ROWS)
        m_n = o_n < num_rows
        # [ROWS, VOCABULARY]
        b_times = tl.zeros([ROWS, VOCABULARY], dtype=ACC)
        for i_c in tl.static_range(COLUMNS):  # so that all are loaded at once
            b_row, m_known = locate_category(index, first, o_n, m_n, i_c, COLUMNS)
            m_reads = (m_n & m_known)[:, None] & (b_row[:, None] == o_v[None, :])
            b_times += tl.where(m_reads, 1.0, 0.0).to(ACC)
        # [ROWS, SPAN]
        p_grad = grad + o_n[:, None] * stride + o_c[None, :]
        b_grad = tl.load(p_grad, mask=m_n[:, None] & m_c[None, :], other=0.0).to(ACC)
        b_sum += dot(tl.trans(b_times), b_grad, ACC)
    p_parts = parts + (i_share * total + o_v[:, None]) * WIDTH + o_c[None, :]
    tl.store(p_parts, b_sum, mask=(o_v < total)[:, None] & m_c[None, :])
