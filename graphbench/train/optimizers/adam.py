"""Adam and AdamW: https://arxiv.org/abs/1412.6980, https://arxiv.org/abs/1711.05101."""

from __future__ import annotations

from typing import Any

import torch

from graphbench.registry import FromContext, register
from graphbench.train.eager_optimizer import eager


@register("adam")
@eager
class Adam(torch.optim.Adam):
    """Adam, with weight decay added to the gradient.

    Args:
        params: tensors or parameter groups.
        lr: base learning rate.
        weight_decay: factor of the squared norm's gradient.
    """

    def __init__(
        self,
        params: FromContext[Any],
        lr: FromContext[float],
        weight_decay: FromContext[float] = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay, fused=True)


@register("adamW")
@eager
class AdamW(torch.optim.AdamW):
    """AdamW: Adam with weight decay that shrinks the parameters directly, decoupled from the gradient's scaling.

    Args:
        params: tensors or parameter groups.
        lr: base learning rate.
        weight_decay: fraction of a parameter removed per step, times the learning rate.
    """

    def __init__(
        self,
        params: FromContext[Any],
        lr: FromContext[float],
        weight_decay: FromContext[float] = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay, fused=True)
