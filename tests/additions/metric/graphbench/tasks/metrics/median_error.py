"""Median of absolute errors."""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, wide


@register("medae")
class MedianAbsoluteError(Metric):
    """Median of |pred - true| over rows and columns; the lower one of two."""

    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        return (wide(pred) - wide(true)).abs().median()
