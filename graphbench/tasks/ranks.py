"""Order statistics with ties, all columns at once and without a loop over rows.

Columns (tasks, classes) come first here, (T, R): then every sort and every running sum is over adjacent memory.
"""

from __future__ import annotations

import torch
from torch import Tensor


def tie_bounds(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """First and last position of the run of equal values that every position lies in.

    Args:
        ordered: (T, R), sorted along R.

    Returns:
        Two (T, R) int64 tensors of positions.

    Example:
        9, 7, 7, 2 has first positions 0, 1, 1, 3 and last positions 0, 2, 2, 3.
    """
    columns, rows = ordered.shape
    position = torch.arange(rows, device=ordered.device).expand(columns, rows)
    same = ordered[:, 1:] == ordered[:, :-1]
    first, last = position.clone(), position.clone()
    first[:, 1:].masked_fill_(same, 0)
    last[:, :-1].masked_fill_(same, rows)
    return first.cummax(1).values, last.flip(1).cummin(1).values.flip(1)


def average_ranks(values: Tensor) -> Tensor:
    """Rank of every value among its column, from 0; equal values get the mean of their ranks.

    Args:
        values: (T, R).

    Returns:
        (T, R) in the precision of ``values``.
    """
    ordered, order = values.sort(dim=1)
    first, last = tie_bounds(ordered)
    return torch.empty_like(values).scatter_(1, order, (first + last).to(values.dtype) / 2)
