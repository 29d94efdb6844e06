"""Precision, recall and their harmonic mean.

Binary tasks: of the positive class. Multiclass tasks: per class, then the mean over the classes that occur among
labels or predictions (macro). Subtokens: per row, of the set of predicted words against the set of true ones, then
the mean over rows (the evaluator of ogbg-code2).
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, mean_of_defined, wide
from graphbench.tasks.subtokens import set_sizes


class _PerClass(Metric):
    kinds = ("binary", "multiclass", "subtoken")

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        if self.kind == "subtoken":
            return self.share(*(wide(each) for each in set_sizes(pred, true, self.out_dim))).mean()
        confusion = wide(self.confusion(pred, true))
        found, predicted, labelled = confusion.diagonal(), confusion.sum(0), confusion.sum(1)
        share = self.share(found, predicted, labelled)
        if self.kind == "binary":
            return mean_of_defined(share[1:], self.defined(predicted, labelled)[1:], "no label is positive")
        return mean_of_defined(share, predicted + labelled > 0, "there are no rows")

    def defined(self, predicted: Tensor, labelled: Tensor) -> Tensor:
        """Which classes have a value."""
        return labelled > 0

    def share(self, found: Tensor, predicted: Tensor, labelled: Tensor) -> Tensor:
        """The metric of every class, 0 where its denominator is 0."""
        raise NotImplementedError


@register("precision")
class Precision(_PerClass):
    """Correct positives / predicted positives; 0 when nothing is predicted positive, as in scikit-learn."""

    def defined(self, predicted: Tensor, labelled: Tensor) -> Tensor:
        """Which classes have a value."""
        return torch.ones_like(labelled, dtype=torch.bool)

    def share(self, found: Tensor, predicted: Tensor, labelled: Tensor) -> Tensor:
        """The metric of every class."""
        return found / predicted.clamp(min=1)


@register("recall")
class Recall(_PerClass):
    """Correct positives / positive labels. Binary: NaN when no label is positive."""

    def share(self, found: Tensor, predicted: Tensor, labelled: Tensor) -> Tensor:
        """The metric of every class."""
        return found / labelled.clamp(min=1)


@register("f1", "f1-macro")
class F1(_PerClass):
    """2 TP / (2 TP + FP + FN). Binary: NaN when neither a label nor a prediction is positive."""

    def defined(self, predicted: Tensor, labelled: Tensor) -> Tensor:
        """Which classes have a value."""
        return predicted + labelled > 0

    def share(self, found: Tensor, predicted: Tensor, labelled: Tensor) -> Tensor:
        """The metric of every class."""
        return 2 * found / (predicted + labelled).clamp(min=1)


@register("f1-micro")
class MicroF1(Metric):
    """2 TP / (2 TP + FP + FN), counted over all classes (the accuracy, for multiclass) or all known labels together."""

    kinds = ("multiclass", "multilabel")

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        predicted = self.predicted(pred)
        if self.kind == "multiclass":
            return wide(predicted == true).mean()
        known = ~true.isnan()
        found = (predicted.bool() & (true == 1)).sum()
        named = (predicted.bool() & known).sum() + (true == 1).sum()
        return mean_of_defined(2 * wide(found)[None] / named, named[None] > 0, "no label and no prediction is positive")
