"""Focal loss: cross entropy that looks away from rows which are right already."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphbench.registry import FromContext, register
from graphbench.structures.capacity import RealRows
from graphbench.tasks.loss import Loss


@register("focal_loss")
class FocalLoss(Loss):
    """Focal loss (https://arxiv.org/abs/1708.02002), -(1 - p)^gamma log p for the probability p of the true class.

    Args:
        task_type: kind of target.
        out_dim: width of the prediction.
        size_average: ``mean`` or ``sum`` over rows.
        gamma: 0 is cross entropy.
    """

    kinds = ("binary", "multiclass")
    row_wise = True

    def __init__(
        self,
        task_type: FromContext[str],
        out_dim: FromContext[int],
        size_average: FromContext[str] = "mean",
        *,
        gamma: float = 2.0,
    ) -> None:
        super().__init__(task_type, out_dim, size_average)
        self.gamma = gamma

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        if self.kind == "binary":
            entropy = F.binary_cross_entropy_with_logits(pred, true, reduction="none")
        else:
            entropy = F.cross_entropy(pred, true, reduction="none")
        return self.reduce(((1 - (-entropy).exp()) ** self.gamma * entropy).sum(), len(true))
