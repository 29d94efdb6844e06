"""Differences between computing with several processes and with one: refused, or told."""

from __future__ import annotations

import dataclasses

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from graphbench.config import Config
from graphbench.errors import UserError
from graphbench.tasks.task import Task


def check_processes(config: Config, model: nn.Module, task: Task) -> Config:
    """The configuration with a notice of what several processes compute otherwise than one.

    Raises:
        UserError: a metric needs all rows in their order, which processes take turns with in training.
    """
    in_order = [name for name, metric in task.metrics.items() if metric.needs_order]
    if in_order:
        raise UserError(
            f"{config.where('devices')}: devices is {config.tree.devices}, but {', '.join(in_order)} ranks each link "
            "among the rows that follow it, and processes take turns with the rows. Set devices to 1."
        )
    if not any(isinstance(module, _BatchNorm) for module in model.modules()):
        return config
    notice = (
        f"{config.where('devices')}: BatchNorm takes mean and variance of each process's part of a batch, so that "
        "numbers differ from those of one process; evaluation uses the statistics of the first process."
    )
    return dataclasses.replace(config, notices=(*config.notices, notice))
