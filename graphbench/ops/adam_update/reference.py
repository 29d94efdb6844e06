"""Adam, parameter by parameter."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

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
    lr, (beta1, beta2) = float(rule.lr), rule.betas
    for p, g, m, v, step in zip(parameters, gradients, exp_avgs, exp_avg_sqs, steps, strict=True):
        step += 1
        if grad_scale is not None:
            g /= grad_scale
        if rule.decoupled:
            p -= lr * rule.weight_decay * p
        else:
            g = g + rule.weight_decay * p
        m.copy_(beta1 * m + (1 - beta1) * g)
        v.copy_(beta2 * v + (1 - beta2) * g**2)
        t = float(step)
        p -= lr / (1 - beta1**t) * m / ((v / (1 - beta2**t)).sqrt() + rule.eps)
