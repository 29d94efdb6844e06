"""Mean errors of predicted numbers."""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, to_double


@register("mae")
class MeanAbsoluteError(Metric):
    """Mean of |pred - true| over rows and columns."""

    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        return (to_double(pred) - to_double(true)).abs().mean()


@register("mse")
class MeanSquaredError(Metric):
    """Mean of (pred - true)^2 over rows and columns."""

    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        return (to_double(pred) - to_double(true)).square().mean()


@register("rmse")
class RootMeanSquaredError(Metric):
    """Root of the mean of (pred - true)^2 over rows and columns (OGB averages the roots of the columns instead)."""

    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        return (to_double(pred) - to_double(true)).square().mean().sqrt()
