"""Values that the task offers to losses and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphbench.registry import UNSET


@dataclass(frozen=True)
class LossContext:
    """Values for losses, subclasses of :class:`~graphbench.tasks.loss.Loss`.

    Attributes:
        task_type: kind of target, see ``vocabulary.TASK_TYPES``.
        out_dim: width of the prediction.
        size_average: ``model.size_average``.
        fixed: fields that no key of a loss's section changes.
    """

    fixed: ClassVar[tuple[str, ...]] = ("out_dim",)

    task_type: str = UNSET
    out_dim: int = UNSET
    size_average: str = UNSET


@dataclass(frozen=True)
class MetricContext:
    """Values for metrics, subclasses of :class:`~graphbench.tasks.metric.Metric`.

    Attributes:
        task_type: kind of target, see ``vocabulary.TASK_TYPES``.
        out_dim: width of the prediction.
        thresh: ``model.thresh``.
    """

    task_type: str = UNSET
    out_dim: int = UNSET
    thresh: float = UNSET
