"""Decay with the root of the epoch."""

from __future__ import annotations

import math

from torch.optim import Optimizer

from graphbench.registry import FromContext, register
from graphbench.train.schedule import Schedule


@register("inverse_sqrt")
class InverseSquareRoot(Schedule):
    """lr = base / sqrt(1 + epoch / scale), without an end.

    Args:
        optimizer: see :class:`~graphbench.train.schedule.Schedule`.
        scale: epochs after which the rate is 1 / sqrt(2) of the base rate.
    """

    def __init__(self, optimizer: FromContext[Optimizer], *, scale: float = 10.0) -> None:
        self.scale = scale
        super().__init__(optimizer)

    def rate(self, base: float, epoch: float) -> float:
        """The rate of an epoch."""
        return base / math.sqrt(1 + epoch / self.scale)
