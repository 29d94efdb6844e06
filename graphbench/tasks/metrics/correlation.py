"""Coefficient of determination and rank correlation, per column, then the mean over columns that have a value.

Neither has one where targets are missing.
"""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.tasks.metric import Metric, Undefined, contains_nan, mean_of_defined, to_double
from graphbench.tasks.ranks import average_ranks


@register("r2")
class R2(Metric):
    """Coefficient of determination (R2).

    1 - sum (pred - true)^2 / sum (true - mean)^2; columns with constant targets are left out, NaN when all are.
    """

    maximize = True
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        _check_known(true)
        pred, true = to_double(pred), to_double(true)
        spread = (true - true.mean(0)).square().sum(0)
        varies = (true != true[:1]).any(0)
        return mean_of_defined(1 - (pred - true).square().sum(0) / spread, varies, "the targets are constant")


@register("spearmanr")
class SpearmanCorrelation(Metric):
    """Rank correlation (Spearman); columns with constant targets or predictions are left out, NaN when all are."""

    maximize = True
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned tensors."""
        _check_known(true)
        a, b = _centred_ranks(pred), _centred_ranks(true)
        varies = (a != 0).any(1) & (b != 0).any(1)
        correlation = (a * b).sum(1) / (a.square().sum(1) * b.square().sum(1)).sqrt()
        return mean_of_defined(correlation, varies, "the targets or the predictions are constant")


def _check_known(true: Tensor) -> None:
    if contains_nan(true):
        raise Undefined("some targets are not known")


def _centred_ranks(values: Tensor) -> Tensor:
    """(T, R) ranks of (R, T) values per column, minus their mean."""
    ranks = average_ranks(to_double(values).T.contiguous())
    return ranks - ranks.mean(1, keepdim=True)
