"""Adam in one Triton kernel for up to 80 parameters."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import accumulate, chain

import torch
from torch import Tensor

from graphbench.ops.adam_update import cpu
from graphbench.ops.adam_update.gpu_kernels import adam_blocks
from graphbench.ops.adam_update.rule import AdamRule
from graphbench.ops.gpu_launch import has_kernels, unspecialized

# Parameters of a launch, of whose 4,096 bytes of arguments each takes 48; parameters up to whose next multiple a launch
# is filled up, so that few kernels serve all models, and among which a program looks for its own; numbers of a program.
MOST, FILLED, GROUP, BLOCK = 80, 20, 10, 1024
# Numbers of a parameter from which ``2 x + 3`` would be one of 64 bits, and the kernel another.
LARGEST = 2**30 - 2


def adam_update(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    steps: Sequence[Tensor],
    rule: AdamRule,
    grad_scale: Tensor | None = None,
) -> None:
    """See :func:`graphbench.ops.adam_update.adam_update`; torch's for what is not contiguous float32 on one device."""
    of_parameters = (parameters, gradients, exp_avgs, exp_avg_sqs)
    alike = {(parameter.dtype, parameter.device) for parameter in parameters} == {(torch.float32, parameters[0].device)}
    contiguous = all(map(Tensor.is_contiguous, chain(*of_parameters)))
    small = max(map(Tensor.numel, parameters)) <= LARGEST
    if not (has_kernels("adam_update", parameters[0]) and alike and contiguous and small):
        cpu.adam_update(*of_parameters, steps, rule, grad_scale)
        return
    torch._foreach_add_(list(steps), 1)
    numbers = [parameter.numel() for parameter in parameters]
    with torch.cuda.device_of(parameters[0]):
        for start in range(0, len(parameters), MOST):
            some = slice(start, start + MOST)
            if any(numbers[some]):
                _launch([list(each[some]) for each in (*of_parameters, steps)], numbers[some], rule, grad_scale)


def _launch(tensors: Sequence[list[Tensor]], numbers: Sequence[int], rule: AdamRule, grad_scale: Tensor | None) -> None:
    left = -len(numbers) % FILLED
    filled = [tuple(each + each[:1] * left) for each in tensors]
    numbers = [*numbers, *[0] * left]
    begins = [0, *accumulate(-(-number // BLOCK) for number in numbers)]
    step = tensors[-1][0]
    on_device = isinstance(rule.lr, Tensor) and rule.lr.device == step.device
    adam_blocks[(begins[-1],)](
        *filled, unspecialized(begins), unspecialized(numbers), rule.lr if on_device else float(rule.lr),
        step if grad_scale is None else grad_scale, *(1.0 - beta for beta in rule.betas),
        *(math.log(max(beta, sys.float_info.min)) for beta in rule.betas), float(rule.eps), float(rule.weight_decay),
        DECOUPLED=rule.decoupled, SCALED=grad_scale is not None, LR_ON_DEVICE=on_device, COUNT=len(numbers),
        GROUP=GROUP, BLOCK=BLOCK, num_warps=4, enable_fp_fusion=True,
    )  # fmt: skip
