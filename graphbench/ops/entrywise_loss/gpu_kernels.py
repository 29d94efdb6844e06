"""Triton kernel of losses over entries. Prefixes of names: ``ops/gpu_tiles.py``; equations: README."""

import triton
import triton.language as tl

MSE, L1, SMOOTH, BCE = (tl.constexpr(number) for number in range(4))


@triton.jit
def load_entries(
    pred, true, rows, o_x, size,
    COLUMNS: tl.constexpr, MASKED: tl.constexpr, UNKNOWN: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """([ENTRIES] predictions, targets, which count); 0 where one does not."""
    m_x = o_x < size
    if MASKED:
        m_x = m_x & (tl.load(rows + o_x // COLUMNS, mask=m_x, other=0) != 0)
    b_x = tl.load(pred + o_x, mask=m_x, other=0.0).to(ACC)
    b_y = tl.load(true + o_x, mask=m_x, other=0.0).to(ACC)
    if UNKNOWN:
        m_x = m_x & (b_y == b_y)
        b_x, b_y = tl.where(m_x, b_x, 0.0), tl.where(m_x, b_y, 0.0)
    return b_x, b_y, m_x


@triton.jit
def loss_of(b_x, b_y, KIND: tl.constexpr):
    """[ENTRIES] losses."""
    if KIND == BCE:
        b_small = tl.exp(-tl.abs(b_x))
        b_one = 1.0 + b_small
        # log(1 + small), where the sum has lost what is small.
        b_log = tl.where(b_one == 1.0, b_small, tl.log(b_one) * (b_small / tl.where(b_one == 1.0, 1.0, b_one - 1.0)))
        b_loss = tl.where(b_x < 0.0, 0.0, b_x) - b_x * b_y + b_log
    else:
        b_d = tl.abs(b_x - b_y)
        b_loss = b_d
        if KIND == MSE:
            b_loss = b_d * b_d
        if KIND == SMOOTH:
            b_loss = tl.where(b_d < 1.0, 0.5 * b_d * b_d, b_d - 0.5)
    return b_loss


@triton.jit
def slope_of(b_x, b_y, KIND: tl.constexpr):
    """[ENTRIES] derivatives by the prediction."""
    if KIND == BCE:
        b_slope = 1.0 / (1.0 + tl.exp(-b_x)) - b_y
    else:
        b_d = b_x - b_y
        b_slope = 2.0 * b_d
        if KIND != MSE:
            b_slope = tl.where(b_d > 0.0, 1.0, tl.where(b_d < 0.0, -1.0, b_d))  # NaN stays NaN
        if KIND == SMOOTH:
            b_slope = tl.where(tl.abs(b_d) < 1.0, b_d, b_slope)
    return b_slope


@triton.jit(do_not_specialize=["size"])
def loss_and_gradient(
    pred, true, rows, loss, dpred, size,
    KIND: tl.constexpr, MEAN: tl.constexpr, GRADIENT: tl.constexpr, COLUMNS: tl.constexpr, MASKED: tl.constexpr,
    UNKNOWN: tl.constexpr, ENTRIES: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """One program: the sum or mean, and what it makes the gradient of every entry."""
    b_sum, b_count = tl.zeros([ENTRIES], dtype=ACC), tl.zeros([ENTRIES], dtype=ACC)
    for i_x in range(0, size, ENTRIES):
        o_x = i_x + tl.arange(0, ENTRIES)
        b_x, b_y, m_x = load_entries(pred, true, rows, o_x, size, COLUMNS, MASKED, UNKNOWN, ACC)
        b_sum += tl.where(m_x, loss_of(b_x, b_y, KIND), 0.0)
        b_count += m_x.to(ACC)
    factor = tl.full([], 1.0, dtype=ACC)
    if MEAN:
        factor = 1.0 / tl.maximum(tl.sum(b_count, 0), 1.0)
    tl.store(loss, (tl.sum(b_sum, 0) * factor).to(loss.dtype.element_ty))
    if GRADIENT:
        for i_x in range(0, size, ENTRIES):
            o_x = i_x + tl.arange(0, ENTRIES)
            b_x, b_y, m_x = load_entries(pred, true, rows, o_x, size, COLUMNS, MASKED, UNKNOWN, ACC)
            b_slope = tl.where(m_x, slope_of(b_x, b_y, KIND) * factor, 0.0)
            tl.store(dpred + o_x, b_slope.to(dpred.dtype.element_ty), mask=o_x < size)
