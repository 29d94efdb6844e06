"""Adagrad: https://jmlr.org/papers/v12/duchi11a.html."""

from __future__ import annotations

from typing import Any

import torch

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
