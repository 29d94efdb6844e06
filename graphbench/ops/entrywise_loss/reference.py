"""Losses over entries as the equation: a loop over the entries that count."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.entrywise_loss.kind import Kind


def entrywise_loss(pred: Tensor, true: Tensor, kind: Kind, mean: bool, rows: Tensor | None, unknown: bool) -> Tensor:
    """See :func:`graphbench.ops.entrywise_loss.entrywise_loss`."""
    total, count = pred.new_zeros(()), 0
    for r in range(len(pred)):
        if rows is not None and not rows[r]:
            continue
        for x, y in zip(pred[r].flatten(), true[r].flatten().to(pred.dtype), strict=True):
            if not (unknown and y.isnan()):
                total, count = total + _of_entry(x, y, kind), count + 1
    return total / max(count, 1) if mean else total


def _of_entry(x: Tensor, y: Tensor, kind: Kind) -> Tensor:
    if kind == "bce":
        return -y * F.logsigmoid(x) - (1 - y) * F.logsigmoid(-x)
    distance = (x - y).abs()
    if kind == "smoothl1":
        return distance.square() / 2 if distance < 1 else distance - 0.5
    return distance.square() if kind == "mse" else distance
