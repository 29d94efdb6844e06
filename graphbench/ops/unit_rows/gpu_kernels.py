"""Triton kernels of rows of length one. Prefixes of names: ``ops/gpu_tiles.py``; equations: README."""

import triton
import triton.language as tl


@triton.jit
def positive_rows(x, num_rows, s_x, EPS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr,
                  ACC: tl.constexpr):  # fmt: skip
    """([ROWS, SPAN] positive part, [ROWS] length or EPS, which rows are longer, rows, channels, which exist)."""
    o_n = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    o_c = tl.arange(0, SPAN)
    m_x = (o_n < num_rows)[:, None] & (o_c < WIDTH)[None, :]
    b_x = tl.load(x + o_n[:, None] * s_x + o_c[None, :], mask=m_x, other=0.0).to(ACC)
    b_x = tl.where(b_x <= 0.0, 0.0, b_x)  # NaN stays NaN
    b_length = tl.sqrt(tl.sum(b_x * b_x, 1))
    m_long = b_length > EPS
    return b_x, tl.where(b_length <= EPS, EPS, b_length), m_long, o_n, o_c, m_x


@triton.jit(do_not_specialize=["num_rows"])
def unit_rows_forward(
    x, out, num_rows, s_x,
    EPS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Rows divided by their length."""
    b_x, b_length, _m_long, o_n, o_c, m_x = positive_rows(x, num_rows, s_x, EPS, WIDTH, SPAN, ROWS, ACC)
    b_out = (b_x / b_length[:, None]).to(out.dtype.element_ty)
    tl.store(out + o_n[:, None] * WIDTH + o_c[None, :], b_out, mask=m_x)


@triton.jit(do_not_specialize=["num_rows"])
def unit_rows_backward(
    x, grad, dx, num_rows, s_x, s_grad,
    EPS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Part of the gradient that is orthogonal to the row, where ReLU has not cut."""
    b_x, b_length, m_long, o_n, o_c, m_x = positive_rows(x, num_rows, s_x, EPS, WIDTH, SPAN, ROWS, ACC)
    b_grad = tl.load(grad + o_n[:, None] * s_grad + o_c[None, :], mask=m_x, other=0.0).to(ACC)
    b_unit = b_x / b_length[:, None]
    b_along = tl.where(m_long, tl.sum(b_grad * b_unit, 1), 0.0)
    b_dx = tl.where(b_x == 0.0, 0.0, (b_grad - b_unit * b_along[:, None]) / b_length[:, None])
    tl.store(dx + o_n[:, None] * WIDTH + o_c[None, :], b_dx.to(dx.dtype.element_ty), mask=m_x)
