"""Cross entropy, plain and weighted by class."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register
from graphbench.structures.capacity import RealRows
from graphbench.tasks.loss import Loss

_IGNORED = -100
"""Class of rows that do not count."""
_FEW = 16
"""From so many classes on a row fills a vector of the processor. Fewer, in rows, take torch's softmax 3 to 12 times as
long as in columns."""


@register("cross_entropy")
class CrossEntropy(Loss):
    """Cross entropy: softmax over classes, or one sigmoid per binary label.

    - log p(true class).

    Multilabel targets that are NaN are left out; a batch in which every label is NaN has loss 0 and gradient 0.
    Subtokens: mean over the positions of a sequence, too.

    Args:
        task_type: see ``vocabulary.TASK_TYPES``.
        out_dim: width of the prediction.
        size_average: ``mean`` or ``sum`` over rows (and labels).
        class_weight: PyTorch's ``weight`` of every class, whose mean divides by the weights of the rows; of binary
            labels PyTorch's ``pos_weight``, one number or one per label. Empty: all are 1.
        label_smoothing: s; targets are (1 - s) of themselves and s of the uniform distribution over the classes.

    Raises:
        ValueError: another number of weights, one below 0, or s outside [0, 1); either of subtokens.
    """

    kinds = ("binary", "multiclass", "multilabel", "subtoken")
    capturable = True
    row_wise = True

    def __init__(
        self,
        task_type: FromContext[str],
        out_dim: FromContext[int],
        size_average: FromContext[str] = "mean",
        *,
        class_weight: tuple[float, ...] = (),
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(task_type, out_dim, size_average)
        counts = (out_dim,) if self.kind == "multiclass" else (1, out_dim)
        if class_weight and len(class_weight) not in counts:
            allowed = " or ".join(map(str, dict.fromkeys(counts)))
            raise ArgumentError(
                "class_weight", f"the length of class_weight is {allowed} in this task, received {len(class_weight)}"
            )
        if not all(0 <= weight < math.inf for weight in class_weight):
            raise ArgumentError("class_weight", f"class_weight must be at least 0, received {list(class_weight)}")
        if not 0 <= label_smoothing < 1:
            raise ArgumentError("label_smoothing", f"label_smoothing must lie in [0, 1), received {label_smoothing}")
        self._plain = not (class_weight or label_smoothing)
        if not self._plain and self.kind == "subtoken":
            raise ArgumentError(
                ("class_weight", "label_smoothing"), "subtokens have neither class_weight nor label_smoothing"
            )
        self._weight, self._smoothing = tuple(map(float, class_weight)), label_smoothing
        self._weights: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        if class_weight and self.kind == "multiclass":
            self.row_wise = False  # type: ignore[misc]  # the mean divides by the weights of all rows

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        rows = len(true) if real is None else real.count
        if not self._plain:
            settled = self._of_classes if self.kind == "multiclass" else self._of_labels
            return settled(pred if real is None else real.select(pred), true, real)
        if self.kind == "multiclass":
            label = true if real is None else real.select(true, _IGNORED)
            return self.reduce(_cross_entropy_sum(pred, label), rows)
        if self.kind == "binary":
            return self.over_entries(pred, true, "bce", real)
        if self.kind == "subtoken":
            unknown = self.out_dim - 2
            word = true[:, : pred.shape[1]]
            word = word.masked_fill(word >= self.out_dim, unknown)
            word = (word if real is None else real.select(word, _IGNORED)).flatten()
            total = F.cross_entropy(pred.flatten(0, 1), word, reduction="sum", ignore_index=_IGNORED)
            return self.reduce(total, rows * pred.shape[1])
        return self.over_entries(pred, true, "bce", real, unknown=True)

    def _of_classes(self, pred: Tensor, true: Tensor, real: RealRows | None) -> Tensor:
        label = true.long() if real is None else real.select(true.long(), _IGNORED)
        weight = self._weight_on(pred)
        total = F.cross_entropy(
            pred, label, weight, reduction="sum", ignore_index=_IGNORED, label_smoothing=self._smoothing
        )
        if weight is None or self.size_average == "sum":
            return self.reduce(total, len(true) if real is None else real.count)
        of_rows = weight[label.clamp(min=0)]
        weights = (of_rows if real is None else real.select(of_rows)).sum()
        return total / weights.clamp(min=torch.finfo(pred.dtype).tiny)

    def _of_labels(self, pred: Tensor, true: Tensor, real: RealRows | None) -> Tensor:
        true = true.to(pred.dtype)
        counts = ~true.isnan()
        if real is not None:
            counts = real.select(counts)
        smooth = (1 - self._smoothing) * true.nan_to_num() + self._smoothing / 2
        losses = F.binary_cross_entropy_with_logits(pred, smooth, reduction="none", pos_weight=self._weight_on(pred))
        return self.reduce(losses.masked_fill(~counts, 0.0).sum(), counts.sum())

    def _weight_on(self, pred: Tensor) -> Tensor | None:
        """The weights beside the predictions; copied once, because a recorded step reads the copy."""
        key = (pred.device, pred.dtype)
        if self._weight and key not in self._weights:
            self._weights[key] = torch.tensor(self._weight, dtype=pred.dtype).to(pred.device)
        return self._weights.get(key)


@register("weighted_cross_entropy")
class WeightedCrossEntropy(Loss):
    """Cross entropy with class weights counted in the batch.

    The weight of class c is (V - n_c) / V, n_c counted in the batch itself and V its number of rows.

    GraphGPS's loss for PATTERN, CLUSTER and the superpixel sets. The mean divides by the sum of the weights used
    (multiclass) or by the number of rows (binary), as in GraphGPS.

    Differences from GraphGPS:
        A batch whose rows all have one class has weights 0; the loss is 0 there (NaN in GraphGPS).
    """

    kinds = ("binary", "multiclass")
    capturable = True
    least_rows = 2

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        label = true.long()
        weight = class_weights(label, max(self.out_dim, 2), pred.dtype, real)[label]
        if real is not None:
            weight = real.select(weight)
        if self.kind == "binary":
            losses = F.binary_cross_entropy_with_logits(pred, true, reduction="none")
            return self.reduce((weight * losses).sum(), len(true) if real is None else real.count)
        total = (weight * F.cross_entropy(pred, label, reduction="none")).sum()
        return total if self.size_average == "sum" else total / weight.sum().clamp(min=torch.finfo(pred.dtype).tiny)


def _cross_entropy_sum(pred: Tensor, label: Tensor) -> Tensor:
    """Over the rows of (R, C) logits. In evaluation on a CPU few classes are summed along the rows, many at a time."""
    if pred.device.type == "cpu" and pred.shape[1] < _FEW and not pred.requires_grad:
        pred, label = pred.T[None], label[None]
    return F.cross_entropy(pred, label, reduction="sum", ignore_index=_IGNORED)


def class_weights(label: Tensor, classes: int, dtype: torch.dtype, real: RealRows | None = None) -> Tensor:
    """(V - n_c) / V for every class, 0 for classes that do not occur.

    Args:
        label: (V,) int64.
        classes: number of classes.
        dtype: type of the result.
        real: rows that count; None: all.

    Returns:
        (classes,)
    """
    # index_add_ of integers: exact, deterministic, and unlike bincount it does not wait for the device.
    ones = torch.ones_like(label) if real is None else real.mask.to(label.dtype)
    count = label.new_zeros(classes).index_add_(0, label, ones)
    if real is not None:
        return (real.count - count).to(dtype) / real.count.clamp(min=1) * (count > 0)
    return (len(label) - count).to(dtype) / max(len(label), 1) * (count > 0)
