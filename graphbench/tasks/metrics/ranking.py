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
from graphbench.tasks.ranks import Descending


class _Ranking(Metric):
    maximize = True
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
        rows = Descending.of(pred.contiguous())
        label = true.contiguous().gather(1, rows.order)
        positive, negative = (label == 1).long(), (label == 0).long()
        positives, negatives = positive.sum(1), negative.sum(1)
        return mean_of_defined(
            (self.credit(rows, positive, negative) * positive).sum(1) / to_double(positives),
            positives * negatives > 0,
            "no task has both positive and negative labels" if len(label) > 1 else "the labels are all alike",
        )

    @abstractmethod
    def credit(self, rows: Descending, positive: Tensor, negative: Tensor) -> Tensor:
        """(T, R): what a positive label at this position of the order contributes.

        Args:
            rows: order of the scores.
            positive: (T, R) 1 where the row there has a positive label, else 0.
            negative: (T, R) 1 where it has a negative one.
        """


@register("auc", "rocauc")
class AreaUnderROC(_Ranking):
    """Area under the ROC curve.

    Probability that a positive label scores higher than a negative one; equal scores count one half.
    """

    def credit(self, rows: Descending, positive: Tensor, negative: Tensor) -> Tensor:
        """Fraction of the negatives below this score, plus half of those at it."""
        negatives = to_double(negative.sum(1, keepdim=True))
        return 1 - (to_double(rows.above(negative)) + to_double(rows.up_to(negative))) / 2 / negatives.clamp(min=1)


@register("ap")
class AveragePrecision(_Ranking):
    """Average precision: mean over positive labels of the precision among everything scored at least as high."""

    def credit(self, rows: Descending, positive: Tensor, negative: Tensor) -> Tensor:
        """Precision among the rows at this score or above."""
        positives_to, negatives_to = (to_double(rows.up_to(each)) for each in (positive, negative))
        return positives_to / (positives_to + negatives_to).clamp(min=1)
