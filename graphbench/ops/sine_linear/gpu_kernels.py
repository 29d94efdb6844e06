"""Triton kernels around the product of a sine layer. Prefixes of names: ``ops/gpu_tiles.py``; equations: README."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def locate_tile(frequency, num_rows, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr):
    """([ROWS, SPAN] offsets in (.., WIDTH), which exist, [SPAN] columns, their frequencies)."""
    o_n = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    o_c = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    b_frequency = tl.load(frequency + o_c, mask=o_c < WIDTH, other=0.0).to(ACC)
    return o_n[:, None] * WIDTH + o_c[None, :], (o_n < num_rows)[:, None] & (o_c < WIDTH)[None, :], o_c, b_frequency


@triton.jit(do_not_specialize=["num_rows"])
def forward(
    mapped, frequency, out, num_rows,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """sin(frequency * mapped)."""
    o_x, m_x, _o_c, b_frequency = locate_tile(frequency, num_rows, WIDTH, SPAN, ROWS, ACC)
    b_mapped = tl.load(mapped + o_x, mask=m_x, other=0.0).to(ACC)
    tl.store(out + o_x, tl.sin(b_frequency[None, :] * b_mapped).to(out.dtype.element_ty), mask=m_x)


@triton.jit(do_not_specialize=["num_rows"])
def backward(
    mapped, frequency, grad, dmapped, parts, num_rows,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradient of what was mapped, and the parts of a tile of those of bias and frequency."""
    o_x, m_x, o_c, b_frequency = locate_tile(frequency, num_rows, WIDTH, SPAN, ROWS, ACC)
    # [ROWS, SPAN]
    b_mapped = tl.load(mapped + o_x, mask=m_x, other=0.0).to(ACC)
    b_slope = tl.load(grad + o_x, mask=m_x, other=0.0).to(ACC) * tl.cos(b_frequency[None, :] * b_mapped)
    b_dmapped = b_slope * b_frequency[None, :]
    tl.store(dmapped + o_x, b_dmapped.to(dmapped.dtype.element_ty), mask=m_x)
    p_parts = parts + 2 * tl.program_id(0).to(tl.int64) * WIDTH + o_c
    tl.store(p_parts, tl.sum(b_dmapped, 0), mask=o_c < WIDTH)
    tl.store(p_parts + WIDTH, tl.sum(b_slope * b_mapped, 0), mask=o_c < WIDTH)
