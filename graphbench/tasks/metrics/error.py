"""Mean errors of predicted numbers, over the targets that are known (not NaN)."""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, mean_of_defined, to_double


@register("mae")
class MeanAbsoluteError(Metric):
    """Mean absolute error over rows and columns.

    Mean of |pred - true|.
    """

    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        return _mean((to_double(pred) - to_double(true)).abs())


@register("mse")
class MeanSquaredError(Metric):
    """Mean squared error over rows and columns.

    Mean of (pred - true)^2.
    """

    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        return _mean((to_double(pred) - to_double(true)).square())


@register("rmse")
class RootMeanSquaredError(Metric):
    """Root mean squared error over rows and columns.

    Root of the mean of (pred - true)^2 (OGB averages the roots of the columns instead).
    """

    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        return _mean((to_double(pred) - to_double(true)).square()).sqrt()


def _mean(errors: Tensor) -> Tensor:
    return mean_of_defined(errors, ~errors.isnan(), "no target is known")
