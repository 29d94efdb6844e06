"""Order statistics with ties, all columns at once and without a loop over rows.

Columns (tasks, classes) come first here, (T, R): then every sort and every running sum is over adjacent memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Descending:
    """Columns sorted from the largest value to the smallest.

    Attributes:
        order: (T, R) int64, positions that the values had.
        bounds: first and last position of equal values, from :func:`tie_bounds`; None: there are none.
    """

    order: Tensor
    bounds: tuple[Tensor, Tensor] | None

    @classmethod
    def of(cls, values: Tensor) -> Descending:
        """The order of (T, R) values without NaN.

        Where no two are equal there is one order only: on a CPU numpy finds it, with vector instructions.
        """
        if values.device.type == "cpu":
            order = torch.from_numpy(np.argsort(-values.detach().numpy(), axis=1))
            ordered = values.gather(1, order)
            if not bool((ordered[:, 1:] == ordered[:, :-1]).any()):
                return cls(order, None)
        ordered, order = values.sort(dim=1, descending=True)
        return cls(order, tie_bounds(ordered))

    def above(self, flags: Tensor) -> Tensor:
        """(T, R) how many of the flags, sorted, lie at a larger value."""
        number = flags.cumsum(1) - flags
        return number if self.bounds is None else number.gather(1, self.bounds[0])

    def up_to(self, flags: Tensor) -> Tensor:
        """(T, R) how many of the flags, sorted, lie at this value or a larger one."""
        number = flags.cumsum(1)
        return number if self.bounds is None else number.gather(1, self.bounds[1])


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
