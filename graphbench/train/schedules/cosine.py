"""Cosine decay to zero, with or without a linear warm-up: https://arxiv.org/abs/1608.03983."""

from __future__ import annotations

import math

from torch.optim import Optimizer

from graphbench.registry import FromContext, register
from graphbench.train.schedule import Schedule, WarmupSchedule


@register("cos")
class Cosine(Schedule):
    """Cosine decay.

    lr(e) = base * (1 + cos(pi e / max_epoch)) / 2.

    Args:
        optimizer: see :class:`~graphbench.train.schedule.Schedule`.
        max_epoch: epochs in all.
    """

    def __init__(self, optimizer: FromContext[Optimizer], max_epoch: FromContext[int]) -> None:
        self.max_epoch = max_epoch
        super().__init__(optimizer)

    def rate(self, base: float, epoch: float) -> float:
        """Half a cosine."""
        return base * 0.5 * (1.0 + math.cos(math.pi * epoch / max(1, self.max_epoch)))


@register("cosine_with_warmup")
class CosineWithWarmup(WarmupSchedule):
    """Linear warm-up, then cosine decay.

    lr = base * (1 + cos(pi p)) / 2 with p the fraction of the epochs after the warm-up.

    Args:
        optimizer: see :class:`~graphbench.train.schedule.Schedule`.
        max_epoch: epochs in all.
        num_warmup_epochs: epochs of the rise.
    """

    def decay(self, base: float, progress: float) -> float:
        """Half a cosine."""
        return base * max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))
