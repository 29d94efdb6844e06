"""Reduction on plateau: a rate that falls when the validation loss has stopped falling."""

from __future__ import annotations

from typing import Any, ClassVar

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from graphbench.registry import FromContext, register
from graphbench.train.schedule import Schedule


@register("reduce_on_plateau", "plateau")
class Plateau(Schedule):
    """Reduction on plateau.

    lr <- max(min_lr, lr * reduce_factor) after more than ``schedule_patience`` epochs without a lower loss.

    As in GraphGPS the validation loss counts once per *epoch*: between two evaluations the latest value is taken
    again, so that ``schedule_patience`` means epochs whatever the evaluation period. "Lower" means by a relative
    1e-4 (PyTorch's default).

    Args:
        optimizer: see :class:`~graphbench.train.schedule.Schedule`.
        reduce_factor: factor of each reduction.
        schedule_patience: epochs without improvement that are tolerated.
        min_lr: lower bound.
        stop: end the training with the reduction that would go below ``min_lr``, as the programs of
            graphdeeplearning/benchmarking-gnns do, instead of staying at that rate until ``max_epoch``.
    """

    follows_epoch: ClassVar[bool] = False

    def __init__(
        self,
        optimizer: FromContext[Optimizer],
        reduce_factor: FromContext[float] = 0.1,
        schedule_patience: FromContext[int] = 10,
        min_lr: FromContext[float] = 0.0,
        stop: bool = False,
    ) -> None:
        super().__init__(optimizer)
        self._stop_below = min_lr if stop else 0.0
        self._plateau = ReduceLROnPlateau(
            optimizer, mode="min", factor=reduce_factor, patience=schedule_patience, min_lr=0.0 if stop else min_lr
        )

    @property
    def reason_to_end(self) -> str | None:
        """``min_lr`` once a rate is below it, with ``stop``."""
        return "min_lr" if any(group["lr"] < self._stop_below for group in self.optimizer.param_groups) else None

    def rate(self, base: float, epoch: float) -> float:
        """The base rate: the first epoch's, everything after it depends on the losses."""
        return base

    def set(self, epoch: float) -> None:
        """Nothing: the rate is not a function of the epoch."""

    def step(self, val_loss: float | None = None) -> None:
        """Counts one epoch with this validation loss."""
        self.epoch += 1
        if val_loss is not None:
            self._plateau.step(val_loss)

    def state_dict(self) -> dict[str, Any]:
        """Epoch and the counters of the plateau."""
        return super().state_dict() | {"plateau": self._plateau.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        super().load_state_dict(state)
        self._plateau.load_state_dict(state["plateau"])
