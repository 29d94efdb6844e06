"""Regression losses.

Of several targets of a row those that are NaN are not known and do not count.

GraphGPS accepts the two absolute losses for binary targets as well (a published PCQM-Contact file of Exphormer has
``l1``): the raw prediction is then drawn to 0 or 1, without a sigmoid in between.
"""

from __future__ import annotations

from torch import Tensor

from graphbench.registry import register
from graphbench.structures.capacity import RealRows
from graphbench.tasks.loss import Loss


@register("mse")
class SquaredError(Loss):
    """Squared error, averaged over rows and columns.

    (pred - true)^2.
    """

    kinds = ("regression",)
    capturable = True
    row_wise = True

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        return self.over_entries(pred, true, "mse", real, unknown=self.out_dim > 1)


@register("l1")
class AbsoluteError(Loss):
    """Absolute error, averaged over rows and columns.

    |pred - true|.
    """

    kinds = ("regression", "binary")
    capturable = True
    row_wise = True

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        return self.over_entries(pred, true, "l1", real, unknown=self.out_dim > 1)


@register("smoothl1")
class SmoothAbsoluteError(Loss):
    """Huber loss with threshold 1, averaged over rows and columns.

    d^2 / 2 where d = |pred - true| is below 1, else d - 1/2.
    """

    kinds = ("regression", "binary")
    capturable = True
    row_wise = True

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        return self.over_entries(pred, true, "smoothl1", real, unknown=self.out_dim > 1)
