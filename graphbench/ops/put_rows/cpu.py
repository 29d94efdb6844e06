"""Rows put in their places by torch code."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def put_rows(place: Tensor, sources: Sequence[Tensor], targets: Sequence[Tensor], levels: Sequence[int]) -> None:
    """See :func:`graphbench.ops.put_rows.put_rows`."""
    for source, target, level in zip(sources, targets, levels, strict=True):
        rows = torch.arange(len(source), device=source.device).add_(place[level]).clamp_(max=len(target) - 1)
        target.index_copy_(0, rows, source)
