"""Metrics of an epoch, and which epoch is the best: the first with the best validation value of one metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graphbench.errors import unknown
from graphbench.tasks.task import Task
from graphbench.train.evaluation import SplitPredictions
from graphbench.train.settings import TrainerSettings


@dataclass
class BestEpoch:
    """The best epoch so far.

    Attributes:
        epoch: number of the epoch, from 0.
        metric: the selecting metric.
        value: value of that metric on the validation split.
        values: loss and metrics per split.
        counts: rows per split.
        undefined: why a metric has no value, per split.
        model: the model's state_dict at its end.
    """

    epoch: int
    metric: str
    value: float
    values: dict[str, dict[str, float]]
    counts: dict[str, int]
    model: dict[str, Any]
    undefined: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochMetrics:
    """Metrics of an epoch, and whether it is the best.

    Attributes:
        values: loss and metrics per split.
        undefined: why a metric is NaN, per split.
        improved: whether it is the best epoch so far.
    """

    values: dict[str, dict[str, float]]
    undefined: dict[str, dict[str, str]]
    improved: bool


def compute_metrics(
    predictions: Mapping[str, SplitPredictions],
    task: Task,
    settings: TrainerSettings,
    *,
    epoch: int,
    num_train_batches: int,
    best: BestEpoch | None,
) -> EpochMetrics:
    """Loss and metrics per split, and whether this is the best epoch so far.

    Args:
        predictions: predictions of the training split, and of the others where the epoch was evaluated.
        task: gives loss and metrics.
        settings: the selecting metric, and in which epochs the others are computed.
        epoch: number of the epoch, from 0.
        num_train_batches: number of training batches of an epoch.
        best: best epoch so far.

    Raises:
        UserError: the selecting metric is not computed.
    """
    metric = settings.metric
    all_metrics = settings.computes_all_metrics(epoch, num_train_batches)
    selecting = [metric] if metric != "loss" else []
    only = {split: None if all_metrics else selecting if split != "train" else [] for split in predictions}
    values, undefined = _computed(predictions, task, only)
    if "val" not in values:
        return EpochMetrics(values, undefined, improved=False)
    if metric not in values["val"]:
        raise unknown("metric to select the best epoch by (metric_best)", metric, values["val"])
    improved = is_better(values["val"][metric], best, settings.maximize)
    if improved and not all_metrics:
        values, undefined = _computed(predictions, task, dict.fromkeys(predictions))
    return EpochMetrics(values, undefined, improved)


def _computed(
    predictions: Mapping[str, SplitPredictions], task: Task, only: Mapping[str, Sequence[str] | None]
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, str]]]:
    """Values, and why there is none, per split; ``only`` names the metrics of a split, None: all."""
    values, undefined = {}, {}
    for split, of_split in predictions.items():
        values[split] = of_split.buffer.compute(task, only[split])
        if task.undefined:
            undefined[split] = dict(task.undefined)
    return values, undefined


def is_better(value: float, best: BestEpoch | None, maximize: bool) -> bool:
    """Whether a value of the selecting metric beats the best epoch's; the first of equals stays, NaN never wins."""
    if math.isnan(value) or best is None:
        return not math.isnan(value)
    return value > best.value if maximize else value < best.value


def copy_state_dict(state: dict[str, Tensor], onto: dict[str, Tensor] | None) -> dict[str, Tensor]:
    """A copy of a state_dict.

    Args:
        state: parameters and buffers of a model.
        onto: an older copy, which is overwritten where it fits: a few launches instead of one per tensor.
    """
    if onto is None or _layouts(onto) != _layouts(state):
        return {name: tensor.detach().clone() for name, tensor in state.items()}
    for dtype in {tensor.dtype for tensor in state.values()}:
        names = [name for name, tensor in state.items() if tensor.dtype == dtype]
        torch._foreach_copy_([onto[name] for name in names], [state[name].detach() for name in names])
    return onto


def _layouts(state: dict[str, Tensor]) -> dict[str, tuple[Any, ...]]:
    return {name: (tensor.dtype, tensor.device, tensor.shape, tensor.stride()) for name, tensor in state.items()}
