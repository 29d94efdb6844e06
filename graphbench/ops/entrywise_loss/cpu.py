"""Losses over entries by torch's own; what does not count is replaced by what costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.entrywise_loss.kind import Kind

_LOSSES: Mapping[Kind, Callable[..., Tensor]] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smoothl1": F.smooth_l1_loss,
    "bce": F.binary_cross_entropy_with_logits,
}


def entrywise_loss(pred: Tensor, true: Tensor, kind: Kind, mean: bool, rows: Tensor | None, unknown: bool) -> Tensor:
    """See :func:`graphbench.ops.entrywise_loss.entrywise_loss`."""
    loss, true = _LOSSES[kind], true.to(pred.dtype)
    if rows is None and not unknown:
        total = loss(pred, true, reduction="sum")
        return total / max(true.numel(), 1) if mean else total
    counts = ~true.isnan() if unknown else None
    if rows is not None:
        real = rows.view(-1, *(1 for _ in true.shape[1:]))
        counts = real.expand_as(true) if counts is None else counts & real
    assert counts is not None
    pred, true = pred.masked_fill(~counts, 0.0), true.masked_fill(~counts, 0.0)
    total = loss(pred, true, reduction="none").masked_fill(~counts, 0.0).sum()
    return total / counts.sum().clamp(min=1) if mean else total
