"""A metric by its name, and predictions with targets for every kind of task."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench import registry
from graphbench.tasks.metric import Metric

TASK_TYPES = {
    "binary": ("classification_binary", 1),
    "multiclass": ("classification_multi", 4),
    "multilabel": ("classification_multilabel", 4),
    "regression": ("regression", 3),
}


def metric(name: str, kind: str, out_dim: int | None = None, **arguments: Any) -> Metric:
    task_type, width = TASK_TYPES[kind]
    return registry.lookup("tasks/metrics", name)(task_type=task_type, out_dim=out_dim or width, **arguments)


def random_case(kind: str, rows: int = 60, seed: int = 0, ties: bool = False) -> tuple[Tensor, Tensor]:
    """Predictions (R, width) and targets; multilabel ones lack a fifth of their labels."""
    generator = torch.Generator().manual_seed(seed)
    pred = torch.randn(rows, TASK_TYPES[kind][1], generator=generator, dtype=torch.float64)
    if ties:
        pred = (2 * pred).round() / 2
    if kind == "binary":
        return pred, torch.randint(0, 2, (rows,), generator=generator)
    if kind == "multiclass":
        return pred, torch.randint(0, 4, (rows,), generator=generator)
    if kind == "regression":
        return pred, (pred + torch.randn(rows, 3, generator=generator, dtype=torch.float64)).round(decimals=1)
    true = torch.randint(0, 2, (rows, 4), generator=generator).double()
    return pred, true.masked_fill(torch.rand(rows, 4, generator=generator) < 0.2, torch.nan)


def multiclass_case(seed: int, ties: bool) -> tuple[Tensor, Tensor]:
    """With ties, whole rows repeat: only then are probabilities equal to the last bit."""
    pred, true = random_case("multiclass", seed=seed)
    return (pred[:20].repeat(3, 1) if ties else pred), true
