"""Polynomial decay to a final rate, after a linear warm-up."""

from __future__ import annotations

from torch.optim import Optimizer

from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register
from graphbench.train.schedule import WarmupSchedule


@register("polynomial_with_warmup")
class PolynomialWithWarmup(WarmupSchedule):
    """Linear warm-up from exactly 0, then polynomial decay.

    lr = (base - lr_end) * (1 - p) ^ power + lr_end, and lr_end from there on.

    Args:
        optimizer: see :class:`~graphbench.train.schedule.Schedule`.
        max_epoch: epochs in all.
        num_warmup_epochs: epochs of the rise.
        lr_end: final rate.
        power: 1 gives a straight line.
    """

    floor = 0.0

    def __init__(
        self,
        optimizer: FromContext[Optimizer],
        max_epoch: FromContext[int],
        num_warmup_epochs: FromContext[int] = 0,
        lr_end: float = 1e-7,
        power: float = 1.0,
    ) -> None:
        lowest = min(group["lr"] for group in optimizer.param_groups)
        if not lowest > lr_end:
            raise ArgumentError("lr_end", f"lr_end must be below the base rate {lowest:g}, received {lr_end:g}")
        self.lr_end = lr_end
        self.power = power
        super().__init__(optimizer, max_epoch, num_warmup_epochs)

    def decay(self, base: float, progress: float) -> float:
        """A polynomial down to ``lr_end``."""
        remaining: float = max(0.0, 1.0 - progress) ** self.power
        return (base - self.lr_end) * remaining + self.lr_end
