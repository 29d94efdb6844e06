"""Example predictions and targets for every kind of task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from graphbench import registry
from graphbench.tasks.loss import Loss
from graphbench.tasks.metric import Metric
from graphbench.vocabulary import TaskKind

T = TypeVar("T", Loss, Metric)

TASK_TYPES: Mapping[TaskKind, tuple[str, int]] = {
    "binary": ("classification_binary", 1),
    "multiclass": ("classification_multi", 4),
    "multilabel": ("classification_multilabel", 4),
    "regression": ("regression", 3),
    "subtoken": ("subtoken_prediction", 6),
}
"""``task_type`` and width of the predictions in the checks, by kind."""

POSITIONS = 3


def random_case(
    kind: TaskKind, rows: int = 60, *, seed: int = 0, ties: bool = False, out_dim: int | None = None
) -> tuple[Tensor, Tensor]:
    """Predictions (R, width) in float64 and targets; multilabel ones lack a fifth of their labels.

    Args:
        kind: of the task.
        rows: R.
        seed: of everything random.
        ties: some predictions are equal.
        out_dim: width; None: that of :data:`TASK_TYPES`.
    """
    random = torch.Generator().manual_seed(seed)
    width = out_dim or TASK_TYPES[kind][1]
    shape = (rows, POSITIONS, width) if kind == "subtoken" else (rows, width)
    pred = torch.randn(shape, generator=random, dtype=torch.float64)
    if ties:
        pred = (2 * pred).round() / 2
    if kind == "binary":
        return pred, torch.randint(0, 2, (rows,), generator=random)
    if kind == "multiclass":
        return pred, torch.randint(0, width, (rows,), generator=random)
    if kind == "regression":
        return pred, (pred + torch.randn(shape, generator=random, dtype=torch.float64)).round(decimals=1)
    if kind == "subtoken":
        return pred, torch.randint(0, width - 2, (rows, POSITIONS), generator=random)
    true = torch.randint(0, 2, shape, generator=random).double()
    return pred, true.masked_fill(torch.rand(shape, generator=random) < 0.2, math.nan)


def perfect_predictions(kind: TaskKind, true: Tensor, width: int) -> Tensor:
    """Predictions that say what the targets are."""
    if kind == "regression":
        return true.clone()
    if kind in ("multiclass", "subtoken"):
        return 20.0 * one_hot(true, width)
    logits = 20.0 * true.nan_to_num(0) - 10
    return logits[:, None] if kind == "binary" else logits


def of_every_kind(component: type[T], context: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[T]:
    """A loss or metric for every kind of task that it is for; of a run, whose context has a ``task_type``, for that."""
    tasks: list[dict[str, Any]] = [{}]
    if "task_type" not in context:
        tasks = [dict(zip(("task_type", "out_dim"), TASK_TYPES[kind])) for kind in component.kinds]
    return [registry.construct(component, {**context, **task, **arguments}) for task in tasks]


def check_each(check: Callable[[T], None], made: Iterable[T]) -> None:
    """A check of what :func:`of_every_kind` has made; failures name the kind of task."""
    for each in made:
        try:
            check(each)
        except AssertionError as error:
            raise AssertionError(f"{each.kind}: {error}") from error
