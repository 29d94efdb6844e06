"""Adam and AdamW: https://arxiv.org/abs/1412.6980, https://arxiv.org/abs/1711.05101."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.adam_update import AdamRule, adam_update
from graphbench.registry import FromContext, register
from graphbench.train.eager_optimizer import eager


class _Updating(torch.optim.Adam):
    """PyTorch's Adam with the same states, whose steps are :func:`.adam_update`."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of all parameters that have a gradient; PyTorch's for what no class here asks for, and scalers."""
        by_torch = any(group["amsgrad"] or group["maximize"] or not group["fused"] for group in self.param_groups)
        if by_torch or getattr(self, "found_inf", None) is not None:
            return inspect.unwrap(torch.optim.Adam.step)(self, closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            of_parameters: tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]] = ([], [], [], [])
            steps: list[Tensor] = []
            self._init_group(group, *of_parameters, [], steps)  # type: ignore[no-untyped-call]
            decoupled = group["decoupled_weight_decay"]
            rule = AdamRule(group["lr"], group["betas"], group["eps"], group["weight_decay"], decoupled)
            adam_update(*of_parameters, steps, rule, getattr(self, "grad_scale", None))
        return loss


@register("adam")
@eager
class Adam(_Updating):
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
class AdamW(_Updating, torch.optim.AdamW):
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
