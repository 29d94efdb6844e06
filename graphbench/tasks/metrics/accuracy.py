"""Accuracy, plain and balanced."""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, mean_of_defined, to_double


@register("accuracy")
class Accuracy(Metric):
    """Share of correct labels. Multilabel: share per task over its known labels, then the mean over tasks.

    NaN when every label is missing.
    """

    maximize = True
    kinds = ("binary", "multiclass", "multilabel")

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        correct = to_double(self.predicted(pred) == true)
        if self.kind != "multilabel":
            return correct.mean()
        known = (~true.isnan()).sum(0)
        return mean_of_defined(correct.sum(0) / known, known > 0, "all labels are missing")


@register("accuracy-SBM")
class BalancedAccuracy(Metric):
    """Mean recall over classes (PATTERN, CLUSTER).

    As in the benchmark's own code, a class that is predicted but does not occur counts as a class with recall 0.
    """

    maximize = True
    kinds = ("binary", "multiclass")

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        confusion = to_double(self.confusion(pred, true))
        occurs = confusion.sum(1)
        recall = confusion.diagonal() / occurs.clamp(min=1)
        return mean_of_defined(recall, occurs + confusion.sum(0) > 0, "there are no rows")
