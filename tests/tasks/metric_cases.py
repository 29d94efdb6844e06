"""A metric by its name, and predictions with targets."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphbench import registry
from graphbench.tasks.metric import Metric
from graphbench.testing.targets import TASK_TYPES, random_case

__all__ = ["TASK_TYPES", "metric", "multiclass_case", "random_case"]


def metric(name: str, kind: str, out_dim: int | None = None, **arguments: Any) -> Metric:
    task_type, width = TASK_TYPES[kind]
    return registry.lookup("tasks/metrics", name)(task_type=task_type, out_dim=out_dim or width, **arguments)


def multiclass_case(seed: int, ties: bool) -> tuple[Tensor, Tensor]:
    """With ties, whole rows repeat: only then are probabilities equal to the last bit."""
    pred, true = random_case("multiclass", seed=seed)
    return (pred[:20].repeat(3, 1) if ties else pred), true
