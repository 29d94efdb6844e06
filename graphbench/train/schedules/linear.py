"""Linear decay after a linear warm-up."""

from __future__ import annotations

from graphbench.registry import register
from graphbench.train.schedule import WarmupSchedule


@register("linear_with_warmup")
class LinearWithWarmup(WarmupSchedule):
    """Linear warm-up, then linear decay.

    lr = base * (1 - p) with p the fraction of the epochs after the warm-up.

    Args:
        optimizer: see :class:`~graphbench.train.schedule.Schedule`.
        max_epoch: epochs in all.
        num_warmup_epochs: epochs of the rise.
    """

    def decay(self, base: float, progress: float) -> float:
        """A straight line to zero."""
        return base * max(0.0, 1.0 - progress)
