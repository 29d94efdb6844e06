"""Step decay: a rate multiplied by a factor at given epochs."""

from __future__ import annotations

from bisect import bisect_right

from torch.optim import Optimizer

from graphbench.registry import FromContext, register
from graphbench.train.schedule import Schedule


@register("step", "steps")
class Step(Schedule):
    """Step decay.

    lr(e) = base * lr_decay ^ (number of ``steps`` <= e).

    Args:
        optimizer: see :class:`~graphbench.train.schedule.Schedule`.
        steps: epochs from which on the rate is multiplied once more.
        lr_decay: the factor.
    """

    def __init__(
        self, optimizer: FromContext[Optimizer], steps: FromContext[list[int]], lr_decay: FromContext[float] = 0.1
    ) -> None:
        self.steps = sorted(steps)
        self.lr_decay = lr_decay
        super().__init__(optimizer)

    def rate(self, base: float, epoch: float) -> float:
        """The base rate times one factor per step passed."""
        return base * self.lr_decay ** bisect_right(self.steps, epoch)
