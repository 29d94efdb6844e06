"""Adam by torch's fused operation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam

from graphbench.ops.adam_update.rule import AdamRule


def adam_update(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    steps: Sequence[Tensor],
    rule: AdamRule,
    grad_scale: Tensor | None = None,
) -> None:
    """See :func:`graphbench.ops.adam_update.adam_update`."""
    adam(
        list(parameters),
        [_alike(gradient, parameter) for gradient, parameter in zip(gradients, parameters, strict=True)],
        list(exp_avgs),
        list(exp_avg_sqs),
        max_exp_avg_sqs=[],
        state_steps=list(steps),
        fused=True,
        grad_scale=grad_scale,
        amsgrad=False,
        beta1=rule.betas[0],
        beta2=rule.betas[1],
        lr=rule.lr,
        weight_decay=rule.weight_decay,
        eps=rule.eps,
        maximize=False,
        decoupled_weight_decay=rule.decoupled,
    )


def _alike(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient with the strides of its parameter: PyTorch's fused operation goes through both memories in order."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_strided(parameter.shape, parameter.stride(), dtype=gradient.dtype, device=gradient.device).copy_(
        gradient
    )
