"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from graphbench.registry import FromContext, register
from graphbench.train.eager_optimizer import eager


@register("sgd")
@eager
class SGD(torch.optim.SGD):
    """Gradient descent with (not Nesterov) momentum.

    Args:
        params: tensors or parameter groups.
        lr: base learning rate.
        weight_decay: factor of the squared norm's gradient.
        momentum: fraction of the previous update kept.
    """

    def __init__(
        self,
        params: FromContext[Any],
        lr: FromContext[float],
        weight_decay: FromContext[float] = 0.0,
        momentum: FromContext[float] = 0.9,
    ) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay, momentum=momentum, fused=True)
        self.register_step_pre_hook(_begin_momentum)


def _begin_momentum(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """Momentum begins at 0.

    PyTorch's fused step begins with memory that it has not written, and leaves it so where a scaled gradient of float16
    is not finite.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            if parameter.grad is not None and optimizer.state[parameter].get("momentum_buffer") is None:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
