"""The kernels of :mod:`graphbench.ops.residual_norm.gpu_kernels` for several inputs, one launch for all.

Every argument and flag of an input is a list with one entry per input; the third number of a program is its input.
Shares that an input does not need are empty. Triton compiles numbers in lists by whether 16 divides them, whatever it
is told of arguments: at most two kernels per input.
"""

import triton
import triton.language as tl

from graphbench.ops.residual_norm import gpu_kernels

_share_moments, _forward = gpu_kernels.share_moments, gpu_kernels.residual_norm_forward
_share_gradient_sums, _backward = gpu_kernels.share_gradient_sums, gpu_kernels.residual_norm_backward


@triton.jit
def share_moments(
    h, added, real, seed, parts, num_rows, share, s_h, s_added,
    ADDED: tl.constexpr, P: tl.constexpr, MASKED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Number of real rows, mean and sum of squares of every share of every input."""
    for i in tl.static_range(len(P)):
        if tl.program_id(2) == i:
            _share_moments(
                h[i], added[i], real[i], seed[i], parts[i], num_rows[i], share[i], s_h[i], s_added[i],
                ADDED[i], P[i], MASKED[i], WIDTH, SPAN, ROWS, ACC,
            )  # fmt: skip


@triton.jit
def residual_norm_forward(
    h, added, residual, real, seed, weight, bias, running_mean, running_var, parts, statistics, out,
    num_rows, share, s_h, s_added, s_residual,
    IN_SEQUENCE: tl.constexpr, TRAINING: tl.constexpr, STAGED: tl.constexpr, WHOLE: tl.constexpr,
    SHARES: tl.constexpr, EPS: tl.constexpr, MOMENTUM: tl.constexpr,
    ADDED: tl.constexpr, RESIDUAL: tl.constexpr, RELU: tl.constexpr, P: tl.constexpr, Q: tl.constexpr,
    MASKED: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Rows of the outputs.

    ``IN_SEQUENCE``: a program computes its share of all inputs, one after the other, and finds what it has written as
    the residual of the next one.
    """
    for i in tl.static_range(len(P)):
        if (tl.program_id(2) == i) | IN_SEQUENCE:
            if IN_SEQUENCE and i > 0:
                tl.debug_barrier()  # other threads of the program may have written the rows
            _forward(
                h[i], added[i], residual[i], real[i], seed[i], weight[i], bias[i], running_mean[i], running_var[i],
                parts[i], statistics[i], out[i], num_rows[i], share[i], s_h[i], s_added[i], s_residual[i],
                TRAINING, STAGED, WHOLE, SHARES, EPS[i], MOMENTUM[i], ADDED[i], RESIDUAL[i], RELU[i], P[i], Q[i],
                MASKED[i], WIDTH, SPAN, ROWS, ACC,
            )  # fmt: skip


@triton.jit
def share_gradient_sums(
    h, added, seed, weight, bias, statistics, grad, parts, num_rows, share, s_h, s_added, s_grad,
    ADDED: tl.constexpr, RELU: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of bias and weight from every share of every input."""
    for i in tl.static_range(len(P)):
        if tl.program_id(2) == i:
            _share_gradient_sums(
                h[i], added[i], seed[i], weight[i], bias[i], statistics[i], grad[i], parts[i], num_rows[i], share[i],
                s_h[i], s_added[i], s_grad[i], ADDED[i], RELU[i], P[i], Q[i], WIDTH, SPAN, ROWS, ACC,
            )  # fmt: skip


@triton.jit
def residual_norm_backward(
    h, added, real, seed, weight, bias, statistics, grad, parts, dh, dadded, dweight, dbias,
    num_rows, share, s_h, s_added, s_grad,
    STAGED: tl.constexpr, WHOLE: tl.constexpr, SHARES: tl.constexpr, APART: tl.constexpr,
    ADDED: tl.constexpr, RELU: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, MASKED: tl.constexpr,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of the rows, weights and biases of every input."""
    for i in tl.static_range(len(P)):
        if tl.program_id(2) == i:
            _backward(
                h[i], added[i], real[i], seed[i], weight[i], bias[i], statistics[i], grad[i], parts[i], dh[i],
                dadded[i], dweight[i], dbias[i], num_rows[i], share[i], s_h[i], s_added[i], s_grad[i],
                STAGED, WHOLE, SHARES, APART[i], ADDED[i], RELU[i], P[i], Q[i], MASKED[i], WIDTH, SPAN, ROWS, ACC,
            )  # fmt: skip
