"""Losses that are a sum or mean over entries: of differences, or of one sigmoid per label."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.entrywise_loss import cpu, reference
from graphbench.ops.entrywise_loss.kind import KINDS, Kind

__all__ = ["KINDS", "Kind", "entrywise_loss"]


_IMPLEMENTATIONS = Backends(reference.entrywise_loss, cpu.entrywise_loss, gpu=True)


def entrywise_loss(
    pred: Tensor,
    true: Tensor,
    kind: Kind,
    *,
    mean: bool = True,
    rows: Tensor | None = None,
    unknown: bool = False,
    backend: str = "auto",
) -> Tensor:
    """Sum or mean over the entries that count of a loss of one prediction and one target.

    Equations, with d = pred - true::

        mse: d^2      l1: |d|      smoothl1: d^2 / 2 where |d| < 1, else |d| - 1/2
        bce: - true log sigmoid(pred) - (1 - true) log(1 - sigmoid(pred))

    Args:
        pred: (R, ...) floating.
        true: targets of the same shape; without gradient.
        kind: one of :data:`KINDS`.
        mean: divide by the number of entries that count; none at all give 0.
        rows: (R,) bool, rows that count; None: all.
        unknown: entries whose target is NaN do not count.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (). What does not count has gradient 0, whatever it is.

    Raises:
        ValueError: shapes do not fit each other, or ``kind`` is unknown.
    """
    if pred.shape != true.shape or not pred.dim():
        raise ValueError(f"pred and true must be (R, ...), received {tuple(pred.shape)} and {tuple(true.shape)}")
    if rows is not None and rows.shape != pred.shape[:1]:
        raise ValueError(f"rows must be ({len(pred)},), received {tuple(rows.shape)}")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {list(KINDS)}, received {kind!r}")
    return _IMPLEMENTATIONS.choose(backend, pred)(pred, true, kind, mean, rows, unknown)
