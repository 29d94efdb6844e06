"""Base of the learning rate schedules: a rate per parameter group, set after each epoch.

Most schedules are functions of the epoch alone, so that they are written as one: no recursion, no hidden state, and
a resumed run needs nothing but the epoch. The argument is a float, so that the same function can serve a
per-iteration stepping (``epoch + batch / batches``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch.optim import Optimizer

from graphbench.registry import FromContext


class Schedule(ABC):
    """Sets the optimizer's rates; constructing it sets those of epoch 0.

    Args:
        optimizer: optimizer whose groups' ``lr`` at this moment are the base rates.
    """

    def __init__(self, optimizer: FromContext[Optimizer]) -> None:
        self.optimizer = optimizer
        self.base_lrs: list[float] = [group["lr"] for group in optimizer.param_groups]
        self.epoch = 0
        self.set(0.0)

    follows_epoch: ClassVar[bool] = True
    """Whether the rate is a function of the (fractional) epoch, so that it can change before every step."""

    @abstractmethod
    def rate(self, base: float, epoch: float) -> float:
        """The rate used in ``epoch`` (from 0) by a group whose base rate is ``base``."""

    def set(self, epoch: float) -> None:
        """Puts the rates of a (possibly fractional) epoch into the optimizer."""
        for group, base in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = self.rate(base, epoch)

    def step(self, val_loss: float | None = None) -> None:
        """Called once after every epoch.

        Args:
            val_loss: the latest known validation loss; None before the first evaluation.
        """
        self.epoch += 1
        self.set(float(self.epoch))

    @property
    def reason_to_end(self) -> str | None:
        """Why training is over after the epochs counted by :meth:`step`; None while it is not."""
        return None

    @property
    def lr(self) -> float:
        """Rate of the first group at the beginning of the epoch, for logs; also where a run resumes inside it."""
        if self.follows_epoch:
            return self.rate(self.base_lrs[0], float(self.epoch))
        lr: float = self.optimizer.param_groups[0]["lr"]
        return lr

    def state_dict(self) -> dict[str, Any]:
        """State that a checkpoint keeps."""
        return {"epoch": self.epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`; the rates themselves come back with the optimizer's state."""
        self.epoch = state["epoch"]
        self.base_lrs = list(state["base_lrs"])


class WarmupSchedule(Schedule):
    """A linear rise over ``num_warmup_epochs``, then :meth:`decay` over the remaining epochs.

    Args:
        optimizer: see :class:`Schedule`.
        max_epoch: epochs in all.
        num_warmup_epochs: epochs of the rise.

    Attributes:
        floor: smallest factor during the rise. GraphGPS uses 1e-6 for linear and cosine, so that epoch 0 trains
            with a millionth of the base rate; published settings count on it.
    """

    floor: ClassVar[float] = 1e-6

    def __init__(
        self, optimizer: FromContext[Optimizer], max_epoch: FromContext[int], num_warmup_epochs: FromContext[int] = 0
    ) -> None:
        self.max_epoch = max_epoch
        self.num_warmup_epochs = num_warmup_epochs
        super().__init__(optimizer)

    @abstractmethod
    def decay(self, base: float, progress: float) -> float:
        """The rate after ``progress`` (0: warm-up just over, 1: ``max_epoch`` reached)."""

    def rate(self, base: float, epoch: float) -> float:
        """The base rate times max(floor, epoch / num_warmup_epochs), then :meth:`decay`."""
        if epoch < self.num_warmup_epochs:
            return base * max(self.floor, epoch / self.num_warmup_epochs)
        return self.decay(base, (epoch - self.num_warmup_epochs) / max(1, self.max_epoch - self.num_warmup_epochs))
