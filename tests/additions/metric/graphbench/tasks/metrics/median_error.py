"""Median of absolute errors."""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, Undefined, to_double


@register("medae")
class MedianAbsoluteError(Metric):
    """Median of |pred - true| over rows and columns whose target is known; the lower one of two."""

    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        known = ~true.isnan()
        if not bool(known.any()):
            raise Undefined("no target is known")
        return (to_double(pred) - to_double(true))[known].abs().median()
