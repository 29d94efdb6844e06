"""Regression losses.

GraphGPS accepts the two absolute losses for binary targets as well (a published PCQM-Contact file of Exphormer has
``l1``): the raw prediction is then drawn to 0 or 1, without a sigmoid in between.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from graphbench.registry import register
from graphbench.structures.capacity import RealRows
from graphbench.tasks.loss import Loss


@register("mse")
class SquaredError(Loss):
    """(pred - true)^2, mean over rows and columns."""

    kinds = ("regression",)
    capturable = True
    row_wise = True

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        return _reduced(self, F.mse_loss, pred, true, real)


@register("l1")
class AbsoluteError(Loss):
    """|pred - true|, mean over rows and columns."""

    kinds = ("regression", "binary")
    capturable = True
    row_wise = True

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        return _reduced(self, F.l1_loss, pred, true, real)


@register("smoothl1")
class SmoothAbsoluteError(Loss):
    """d^2 / 2 where d = |pred - true| is below 1, else d - 1/2; mean over rows and columns."""

    kinds = ("regression", "binary")
    capturable = True
    row_wise = True

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        return _reduced(self, F.smooth_l1_loss, pred, true, real)


def _reduced(loss: Loss, distance: Callable[..., Tensor], pred: Tensor, true: Tensor, real: RealRows | None) -> Tensor:
    """Sum or mean of the distances of all rows, or of those that count: the distance of 0 and 0 is 0."""
    if real is None:
        return loss.reduce(distance(pred, true, reduction="sum"), true.numel())
    total = distance(real.select(pred), real.select(true), reduction="sum")
    return loss.reduce(total, real.count * (true.numel() // len(true)))
