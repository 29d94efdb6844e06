"""A constant learning rate."""

from __future__ import annotations

from graphbench.registry import register
from graphbench.train.schedule import Schedule


@register("none")
class Constant(Schedule):
    """Constant learning rate.

    lr(e) = base.
    """

    def rate(self, base: float, epoch: float) -> float:
        """The base rate."""
        return base
