"""Precision, recall and their harmonic mean.

Binary tasks: of the positive class, but for ``f1-macro``. Multiclass tasks: per class, then the mean over the classes
that occur among labels or predictions (macro). Subtokens: per row, of the set of predicted words against the set of
true ones, then the mean over rows (the evaluator of ogbg-code2).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, mean_of_defined, to_double
from graphbench.tasks.subtokens import set_sizes
from graphbench.vocabulary import TaskKind


class _PerClass(Metric):
    maximize = True
    kinds: ClassVar[tuple[TaskKind, ...]] = ("binary", "multiclass", "subtoken")
    of_positives: ClassVar[bool] = True
    """Whether a binary task has the value of its positive class alone, not the average over both."""

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        if self.kind == "subtoken":
            correct, predicted, labelled = (to_double(size) for size in set_sizes(pred, true, self.out_dim))
            return self.ratio(correct, predicted, labelled).mean()
        confusion = to_double(self.confusion(pred, true))
        predicted, labelled = confusion.sum(0), confusion.sum(1)
        by_class = self.ratio(confusion.diagonal(), predicted, labelled)
        if self.kind == "binary" and self.of_positives:
            return mean_of_defined(by_class[1:], self.defined(predicted, labelled)[1:], "no label is positive")
        return mean_of_defined(by_class, predicted + labelled > 0, "there are no rows")

    def defined(self, predicted: Tensor, labelled: Tensor) -> Tensor:
        """Mask of the classes that have a value."""
        return labelled > 0

    @abstractmethod
    def ratio(self, correct: Tensor, predicted: Tensor, labelled: Tensor) -> Tensor:
        """The metric of every class (or row of subtokens) from counts, 0 where its denominator is 0."""


@register("precision")
class Precision(_PerClass):
    """Precision: correct positives / predicted positives; 0 when nothing is predicted positive, as in scikit-learn."""

    def defined(self, predicted: Tensor, labelled: Tensor) -> Tensor:
        """Mask of the classes that have a value."""
        return torch.ones_like(labelled, dtype=torch.bool)

    def ratio(self, correct: Tensor, predicted: Tensor, labelled: Tensor) -> Tensor:
        """The metric of every class."""
        return correct / predicted.clamp(min=1)


@register("recall")
class Recall(_PerClass):
    """Recall: correct positives / positive labels. Binary: NaN when no label is positive."""

    def ratio(self, correct: Tensor, predicted: Tensor, labelled: Tensor) -> Tensor:
        """The metric of every class."""
        return correct / labelled.clamp(min=1)


@register("f1")
class F1(_PerClass):
    """F1 score.

    2 TP / (2 TP + FP + FN). Binary: NaN when neither a label nor a prediction is positive.
    """

    def defined(self, predicted: Tensor, labelled: Tensor) -> Tensor:
        """Mask of the classes that have a value."""
        return predicted + labelled > 0

    def ratio(self, correct: Tensor, predicted: Tensor, labelled: Tensor) -> Tensor:
        """The metric of every class."""
        return 2 * correct / (predicted + labelled).clamp(min=1)


@register("f1-macro")
class MacroF1(F1):
    """F1 score per class, then the mean over the classes that occur among labels or predictions, also of binary tasks.

    scikit-learn's ``f1_score(average="macro")``; for multiclass tasks the same as ``f1``.
    """

    kinds = ("binary", "multiclass")
    of_positives = False


@register("f1-micro")
class MicroF1(Metric):
    """F1 score of all classes or labels together.

    2 TP / (2 TP + FP + FN), counted over all classes (the accuracy, for multiclass) or all known labels together.
    """

    maximize = True
    kinds = ("multiclass", "multilabel")

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        predicted = self.predicted(pred)
        if self.kind == "multiclass":
            return to_double(predicted == true).mean()
        known = ~true.isnan()
        correct = (predicted.bool() & (true == 1)).sum()
        positives = (predicted.bool() & known).sum() + (true == 1).sum()
        f1 = 2 * to_double(correct)[None] / positives
        return mean_of_defined(f1, positives[None] > 0, "no label and no prediction is positive")
