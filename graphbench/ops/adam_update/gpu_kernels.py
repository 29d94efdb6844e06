"""Triton kernel of Adam. Prefixes of names: ``ops/gpu_tiles.py``; equations: README."""

import triton
import triton.language as tl

_TERMS = tl.constexpr(8)  # of the series of exp: up to 1/2 what follows is below half an eps of fp32


@triton.jit
def one_minus_power(log_beta, step):
    """``1 - beta^step`` with all digits of fp32, in which the power itself may be almost 1."""
    x = step * log_beta
    near = tl.maximum(x, -0.5)
    series = 1.0 + near / _TERMS
    for i in tl.static_range(_TERMS - 1, 1, -1):
        series = 1.0 + near / i * series
    return tl.where(x > -0.5, -near * series, 1.0 - tl.exp(x))


@triton.jit
def adam_blocks(
    parameters, gradients, exp_avgs, exp_avg_sqs, steps, begins, numbers, lr, grad_scale,
    weight_1, weight_2, log_beta_1, log_beta_2, eps, weight_decay,
    DECOUPLED: tl.constexpr, SCALED: tl.constexpr, LR_ON_DEVICE: tl.constexpr, COUNT: tl.constexpr,
    GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of numbers of one parameter.

    Tuples have an entry per parameter: its tensors, its number of updates, this one included, the first of its blocks
    (and the end of all) and how many ``numbers`` it has, both as ``2 x + 3``. ``weight_1`` and ``weight_2`` are
    ``1 - beta``. COUNT is a multiple of GROUP, in which a program looks for its parameter once it has found the group.
    """
    i_block = 2 * tl.program_id(0) + 3
    p_parameter, p_gradient, p_m, p_v = parameters[0], gradients[0], exp_avgs[0], exp_avg_sqs[0]
    p_step, i_begin, n = steps[0], begins[0], numbers[0]
    for first in tl.static_range(0, COUNT, GROUP):
        if (i_block >= begins[first]) & (i_block < begins[first + GROUP]):
            for i in tl.static_range(first, first + GROUP):
                here = i_block >= begins[i]
                p_parameter = tl.where(here, parameters[i], p_parameter)
                p_gradient = tl.where(here, gradients[i], p_gradient)
                p_m, p_v = tl.where(here, exp_avgs[i], p_m), tl.where(here, exp_avg_sqs[i], p_v)
                p_step = tl.where(here, steps[i], p_step)
                i_begin, n = tl.where(here, begins[i], i_begin), tl.where(here, numbers[i], n)
    o_x = ((i_block - i_begin) // 2).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    m_x = 2 * o_x + 3 < n
    # [BLOCK]
    b_p, b_g = tl.load(p_parameter + o_x, mask=m_x, other=0.0), tl.load(p_gradient + o_x, mask=m_x, other=0.0)
    b_m, b_v = tl.load(p_m + o_x, mask=m_x, other=0.0), tl.load(p_v + o_x, mask=m_x, other=0.0)
    step = tl.load(p_step)
    rate = tl.load(lr) if LR_ON_DEVICE else lr
    if SCALED:
        b_g = tl.div_rn(b_g, tl.load(grad_scale))
        tl.store(p_gradient + o_x, b_g, mask=m_x)
    if DECOUPLED:
        b_p -= rate * weight_decay * b_p
    else:
        b_g += weight_decay * b_p
    # The factors of old and new add up to 1, as those of a beta rounded to fp32 would not.
    b_m = (b_m - weight_1 * b_m) + weight_1 * b_g
    b_v = (b_v - weight_2 * b_v) + weight_2 * b_g * b_g
    tl.store(p_m + o_x, b_m, mask=m_x)
    tl.store(p_v + o_x, b_v, mask=m_x)
    b_root = tl.sqrt(b_v) / tl.sqrt(one_minus_power(log_beta_2, step)) + eps
    b_p -= rate / one_minus_power(log_beta_1, step) * b_m / b_root
    tl.store(p_parameter + o_x, b_p, mask=m_x)
