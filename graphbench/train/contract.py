"""Values that the configuration offers to optimizers and learning rate schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.optim import Optimizer

from graphbench.registry import UNSET


@dataclass(frozen=True)
class OptimizerContext:
    """Values for optimizers, subclasses of :class:`torch.optim.Optimizer`.

    Attributes:
        params: tensors or parameter groups.
        lr: ``optim.base_lr``.
        weight_decay: ``optim.weight_decay``.
        momentum: ``optim.momentum``.
    """

    params: Any = UNSET
    lr: float = UNSET
    weight_decay: float = UNSET
    momentum: float = UNSET


@dataclass(frozen=True)
class ScheduleContext:
    """Values for schedules, subclasses of :class:`~graphbench.train.schedule.Schedule`.

    Attributes:
        optimizer: optimizer whose rates are set.
        max_epoch: ``optim.max_epoch``.
        num_warmup_epochs: ``optim.num_warmup_epochs``.
        steps: ``optim.steps``.
        lr_decay: ``optim.lr_decay``.
        reduce_factor: ``optim.reduce_factor``.
        schedule_patience: ``optim.schedule_patience``.
        min_lr: ``optim.min_lr``.
    """

    optimizer: Optimizer = UNSET
    max_epoch: int = UNSET
    num_warmup_epochs: int = UNSET
    steps: Sequence[int] = UNSET
    lr_decay: float = UNSET
    reduce_factor: float = UNSET
    schedule_patience: int = UNSET
    min_lr: float = UNSET
