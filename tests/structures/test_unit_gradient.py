"""A backward pass begins with one tensor per type and device, which autograd hands on as it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.structures.unit_gradient import unit_gradient


class _Identity(torch.autograd.Function):
    received: Tensor

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        _Identity.received = grad
        return grad


def test_an_operator_is_handed_the_very_tensor() -> None:
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    unit = unit_gradient(x.dtype, x.device)
    _Identity.apply(x).backward(unit)
    assert _Identity.received is unit
    assert unit_gradient(x.dtype, x.device) is unit
    assert unit_gradient(torch.float32, x.device).dtype == torch.float32
    assert float(unit) == float(x.grad) == 1.0
