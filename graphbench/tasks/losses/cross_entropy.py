"""Cross entropy, plain and weighted by class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.registry import register
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
    """

    kinds = ("binary", "multiclass", "multilabel", "subtoken")
    capturable = True
    row_wise = True

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""
        rows = len(true) if real is None else real.count
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
