"""Metrics of the order of the scores: area under the ROC curve, average precision.

Multiclass tasks: one class against the rest, on probabilities, then the mean over classes. Multilabel tasks: per task
over its known labels, then the mean over tasks. Classes and tasks that lack a positive or a negative label are left
out (the rule of OGB's evaluator); when that leaves none the metric is NaN.
"""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor
from torch.nn import functional as F

from graphbench.registry import register
from graphbench.tasks.metric import Metric, mean_of_defined, to_double
from graphbench.tasks.ranks import tie_bounds


class _Ranking(Metric):
    kinds = ("binary", "multiclass", "multilabel")

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        if self.kind == "multiclass":
            # Raw logits of different rows are not comparable for one class; probabilities are.
            pred, true = to_double(pred.T).log_softmax(0), F.one_hot(true, self.out_dim).T
        elif self.kind == "binary":
            pred, true = pred[None], true[None]
        else:
            pred, true = pred.T, true.T
        ordered, order = pred.contiguous().sort(dim=1, descending=True)
        label = true.contiguous().gather(1, order)
        positive, negative = (label == 1).long(), (label == 0).long()
        first, last = tie_bounds(ordered)
        # Positives and negatives at this score or above, and negatives strictly above.
        positives_to = positive.cumsum(1).gather(1, last)
        negatives_to = negative.cumsum(1)
        negatives_above = (negatives_to - negative).gather(1, first)
        negatives_to = negatives_to.gather(1, last)
        positives, negatives = positive.sum(1, keepdim=True), negative.sum(1, keepdim=True)
        credit = self.credit(
            to_double(positives_to), to_double(negatives_to), to_double(negatives_above), to_double(negatives)
        )
        return mean_of_defined(
            (credit * positive).sum(1) / to_double(positives[:, 0]),
            (positives * negatives)[:, 0] > 0,
            "no task has both positive and negative labels" if len(label) > 1 else "the labels are all alike",
        )

    @abstractmethod
    def credit(self, positives_to: Tensor, negatives_to: Tensor, negatives_above: Tensor, negatives: Tensor) -> Tensor:
        """(T, R): what a positive label at this position of the order contributes."""


@register("auc", "rocauc")
class AreaUnderROC(_Ranking):
    """Area under the ROC curve.

    Probability that a positive label scores higher than a negative one; equal scores count one half.
    """

    def credit(self, positives_to: Tensor, negatives_to: Tensor, negatives_above: Tensor, negatives: Tensor) -> Tensor:
        """Fraction of the negatives below this score, plus half of those at it."""
        return 1 - (negatives_above + negatives_to) / 2 / negatives.clamp(min=1)


@register("ap")
class AveragePrecision(_Ranking):
    """Average precision: mean over positive labels of the precision among everything scored at least as high."""

    def credit(self, positives_to: Tensor, negatives_to: Tensor, negatives_above: Tensor, negatives: Tensor) -> Tensor:
        """Precision among the rows at this score or above."""
        return positives_to / (positives_to + negatives_to).clamp(min=1)
