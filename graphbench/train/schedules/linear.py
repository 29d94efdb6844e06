"""Linear decay after a linear warm-up."""

from __future__ import annotations

from torch.optim import Optimizer

from graphbench.registry import FromContext, register
from graphbench.train.schedule import WarmupSchedule


@register("linear_with_warmup")
class LinearWithWarmup(WarmupSchedule):
    """Linear rise, then lr = base * (1 - p) with p the fraction of the epochs after the warm-up.

    Args:
        optimizer: see :class:`~graphbench.train.schedule.Schedule`.
        max_epoch: epochs in all.
        num_warmup_epochs: epochs of the rise.
    """

    def __init__(
        self, optimizer: FromContext[Optimizer], max_epoch: FromContext[int], num_warmup_epochs: FromContext[int] = 0
    ) -> None:
        super().__init__(optimizer, max_epoch, num_warmup_epochs)

    def decay(self, base: float, progress: float) -> float:
        """A straight line to zero."""
        return base * max(0.0, 1.0 - progress)
