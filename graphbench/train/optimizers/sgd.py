"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any

import torch

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
