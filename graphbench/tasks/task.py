"""A task: the loss to minimise and the metrics to report, on the predictions of one batch or of a whole pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from graphbench import registry
from graphbench.structures import DataInfo
from graphbench.tasks.metric import Metric
from graphbench.tasks.targets import align, check_labels, kind_of

LOGGED = {
    "binary": ("accuracy", "precision", "recall", "f1", "auc"),
    "multiclass": ("accuracy", "accuracy-SBM", "f1", "auc"),
    "multilabel": ("accuracy", "ap", "auc"),
    "regression": ("mae", "mse", "rmse", "r2", "spearmanr"),
}
"""Metrics logged for each kind of task, as in GraphGPS."""


def logged_metrics(info: DataInfo) -> list[str]:
    """The metrics of a data set: the one that selects the best epoch first, then those logged for its kind."""
    return list(dict.fromkeys([info.metric, *LOGGED[kind_of(info.task_type, info.out_dim)]]))


class Task:
    """Loss and metrics of one data set.

    Predictions may stay on their device until the end of a pass: collect them in a list, ``torch.cat`` once, then call
    :meth:`evaluate`, which is the only place that waits for the device.

    Args:
        loss: maps (pred, true) to a scalar, e.g. a :class:`~graphbench.tasks.loss.Loss`.
        metrics: names from the room ``tasks/metrics``.
        task_type: see ``structures.data_info.TASK_TYPES``.
        out_dim: width of the prediction.
        thresh: probability above which a label counts as predicted (``model.thresh``).

    Attributes:
        metrics: the metrics by name.
        undefined: why the last :meth:`evaluate` gave NaN, by metric; empty when it gave numbers only.

    Raises:
        UserError: an unknown metric.
        ValueError: a metric that is not for this kind of task.
    """

    def __init__(
        self,
        loss: Callable[[Tensor, Tensor], Tensor],
        metrics: Sequence[str],
        task_type: str,
        out_dim: int,
        *,
        thresh: float = 0.5,
    ):
        self.kind = kind_of(task_type, out_dim)
        self.out_dim = out_dim
        self._loss = loss
        context = {"task_type": task_type, "out_dim": out_dim, "thresh": thresh}
        self.metrics: dict[str, Metric] = {
            name: registry.construct(registry.lookup("tasks/metrics", name), {}, context) for name in metrics
        }
        self.undefined: dict[str, str] = {}

    def loss(self, pred: Tensor, true: Tensor) -> Tensor:
        """The loss of some rows, a scalar with a gradient.

        Raises:
            ValueError: shapes that do not fit, or (on CPU) a label outside its range.
        """
        return self._loss(pred, true)

    def check_targets(self, true: Tensor) -> None:
        """Refuses labels outside their range: call it once on the data, before training on an accelerator.

        Raises:
            ValueError: with the range received and the range allowed.
        """
        pred = torch.zeros(len(true), self.out_dim, dtype=torch.float32, device=true.device)
        check_labels(align(pred, true, self.kind, self.out_dim)[1], self.kind, self.out_dim)

    @torch.no_grad()
    def evaluate(
        self, pred: Tensor, true: Tensor, only: Sequence[str] | None = None, *, loss: bool = True
    ) -> dict[str, float]:
        """Loss and metrics of a whole pass.

        Args:
            pred: (R, out_dim) all raw predictions.
            true: (R, ...) all targets.
            only: names of the metrics to compute; all by default.
            loss: compute the loss, too.

        Returns:
            ``{"loss": ..., metric: ...}``; NaN where a metric has no value, see :attr:`undefined`.

        Raises:
            ValueError: shapes that do not fit, or a label outside its range.
        """
        scores = {"loss": float(self.loss(pred, true))} if loss else {}
        chosen = {name: self.metrics[name] for name in (self.metrics if only is None else only)}
        pred, true = align(pred, true, self.kind, self.out_dim)
        if not loss or true.device.type != "cpu":  # on the CPU computing the loss has checked them
            check_labels(true, self.kind, self.out_dim)
        has_nan = bool(pred.isnan().any())
        scores |= {name: metric.of_aligned(pred, true, has_nan) for name, metric in chosen.items()}
        self.undefined = {name: metric.reason for name, metric in chosen.items() if metric.reason is not None}
        return scores

    def maximize(self, name: str) -> bool:
        """Whether larger values of a metric are better."""
        return self.metrics[name].maximize
