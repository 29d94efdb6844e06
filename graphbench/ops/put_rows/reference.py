"""Rows put in their places one by one."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def put_rows(place: Tensor, sources: Sequence[Tensor], targets: Sequence[Tensor], levels: Sequence[int]) -> None:
    """See :func:`graphbench.ops.put_rows.put_rows`."""
    for source, target, level in zip(sources, targets, levels, strict=True):
        for row, values in enumerate(source, int(place[level])):
            if row < len(target) - 1:
                target[row] = values
