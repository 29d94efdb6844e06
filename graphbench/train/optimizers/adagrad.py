"""Adagrad: https://jmlr.org/papers/v12/duchi11a.html."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from graphbench.registry import FromContext, register
from graphbench.train.eager_optimizer import eager


@register("adagrad")
@eager
class Adagrad(torch.optim.Adagrad):
    """Adagrad: steps divided by the root of the sum of all squared gradients.

    Args:
        params: tensors or parameter groups.
        lr: base learning rate.
        weight_decay: factor of the squared norm's gradient.
    """

    def __init__(
        self, params: FromContext[Any], lr: FromContext[float], weight_decay: FromContext[float] = 0.0
    ) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay)
        self.state.clear()
        self.register_step_pre_hook(_begin_sums)


def _begin_sums(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """Sums begin with the first step, in the precision that parameters have then.

    PyTorch makes them with the optimiser, which is before a model has its precision (``precision: bf16-true``): a
    training that goes on from a checkpoint has them in that of the parameters, and would be another one.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and not optimizer.state[parameter]:
                optimizer.state[parameter] |= {"step": torch.tensor(0.0), "sum": torch.zeros_like(parameter)}
