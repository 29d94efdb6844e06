"""Penalty of a layer, added to the gradient of the training loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def with_penalty(x: Tensor, penalty: Tensor) -> Tensor:
    """``x``; a backward pass through it also adds the gradient of ``penalty``.

    Training then minimises task loss + penalty, however often ``x`` is read on the way to the loss, while the loss
    that is reported stays the task's, comparable between models. A loss that is scaled before ``backward`` (precision
    16-mixed) does not scale the penalty with it; bf16-mixed and 32-true scale nothing.

    Args:
        x: output of the layer.
        penalty: () added to the loss.
    """
    result: Tensor = _WithPenalty.apply(x, penalty)  # type: ignore[no-untyped-call]
    return result


class _WithPenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, penalty: Tensor) -> Tensor:
        ctx.like = penalty.detach()
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, torch.ones_like(ctx.like)
