"""Loss to minimise and metrics to report, on the predictions of one batch or of a whole pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphbench import registry
from graphbench.structures import DataInfo
from graphbench.structures.capacity import RealRows
from graphbench.tasks.contract import MetricContext
from graphbench.tasks.loss import Loss
from graphbench.tasks.metric import Metric, StatisticMetric, Undefined, contains_nan, mean_of_defined, to_double
from graphbench.tasks.targets import align, check_labels, compact, kind_of
from graphbench.vocabulary import TaskKind

LOGGED: Mapping[TaskKind, tuple[str, ...]] = {
    "binary": ("accuracy", "precision", "recall", "f1", "auc"),
    "multiclass": ("accuracy", "accuracy-SBM", "f1", "auc"),
    "multilabel": ("accuracy", "ap", "auc"),
    "regression": ("mae", "mse", "rmse", "r2", "spearmanr"),
    "subtoken": ("f1", "precision", "recall"),
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
        loss: maps (pred, true) to a scalar, for this kind of task.
        metrics: names from the namespace ``tasks/metrics``.
        task_type: see ``vocabulary.TASK_TYPES``.
        out_dim: width of the prediction.
        thresh: probability above which a label counts as predicted (``model.thresh``).

    Attributes:
        metrics: the metrics by name.
        undefined: why the last :meth:`evaluate` gave NaN, by metric; empty when it gave numbers only.

    Raises:
        UserError: an unknown metric.
        ValueError: a metric that is not for this kind of task.
    """

    def __init__(self, loss: Loss, metrics: Sequence[str], task_type: str, out_dim: int, *, thresh: float = 0.5):
        self.kind: TaskKind = kind_of(task_type, out_dim)
        self.out_dim = out_dim
        self._loss = loss
        self._context = MetricContext(task_type=task_type, out_dim=out_dim, thresh=thresh)
        self.metrics: dict[str, Metric] = {name: self._metric(name) for name in metrics}
        self.undefined: dict[str, str] = {}

    def loss(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss of some rows, a scalar with a gradient.

        Args:
            pred: (R, out_dim) raw predictions.
            true: (R, ...) targets.
            real: rows that count, where ``capture_obstacle`` is None; None: all.

        Raises:
            ValueError: shapes that do not fit, or (on CPU) a label outside its range.
        """
        return self._loss(pred, true) if real is None else self._loss(pred, true, real)

    def weighted_loss(self, pred: Tensor, true: Tensor, weight: Tensor) -> Tensor:
        """The sum over rows of weight times loss, where :meth:`weight_obstacle` is None.

        Args:
            pred: (R, out_dim) raw predictions.
            true: (R, ...) targets.
            weight: (R,).
        """
        return self._loss.weighted(pred, true, weight)

    def weight_obstacle(self) -> str | None:
        """Why rows cannot be weighted; None where they can."""
        if self._loss.row_wise:
            return None
        name = self._loss.registered_name or type(self._loss).__name__
        return f"the loss {name} reads all rows of a batch together"

    def capture_obstacle(self) -> str | None:
        """Why the loss cannot be captured (:class:`~graphbench.contract.Capturable`); None where it can."""
        return self._loss.capture_obstacle()

    def check_targets(self, true: Tensor) -> None:
        """Refuses labels outside their range: call it once on the data, before training on an accelerator.

        Raises:
            ValueError: with the range received and the range allowed.
        """
        shape = (1, self.out_dim) if self.kind == "subtoken" else (self.out_dim,)
        pred = torch.zeros(1, device=true.device).expand(len(true), *shape)
        check_labels(align(pred, true, self.kind, self.out_dim)[1], self.kind, self.out_dim)

    def keep(self, pred: Tensor) -> Tensor:
        """Smallest form of a batch's predictions that the metrics of :meth:`evaluate` can use."""
        return compact(pred.detach(), self.kind)

    @torch.no_grad()
    def evaluate(
        self,
        pred: Tensor | Sequence[Tensor],
        true: Tensor | Sequence[Tensor],
        only: Sequence[str] | None = None,
        *,
        loss: bool = True,
        statistics: Mapping[str, Tensor] | None = None,
    ) -> dict[str, float]:
        """Loss and metrics of a whole pass.

        Args:
            pred: (R, out_dim) all raw predictions, or what :meth:`keep` left of them; or those of all batches.
            true: (R, ...) all targets, or those of all batches.
            only: names of the metrics to compute; all by default.
            loss: compute the loss, too.
            statistics: (G,) numbers that modules computed per graph; None in training. What bears the name of a
                metric is given to it (:class:`~graphbench.tasks.metric.StatisticMetric`), for anything else the mean
                over the graphs that have a number is returned, whatever ``only`` says.

        Returns:
            ``{"loss": ..., metric: ..., statistic: ...}``; NaN where one has no value, see :attr:`undefined`.

        Raises:
            ValueError: shapes that do not fit, or a label outside its range.
        """
        self.undefined = {}
        of_metrics: dict[str, Tensor] = {}
        means: dict[str, float] = {}
        for name, values in (statistics or {}).items():
            if self._is_metric(name):
                of_metrics[name] = values
            else:
                means[name] = self._mean(name, values)
        requested = (*self.metrics, *of_metrics) if only is None else only
        chosen = [name for name in requested if self._is_computable(name, of_metrics)]
        if not loss and not chosen:
            return means
        pred, true = _joined(pred), _joined(true)
        scores = {"loss": float(self.loss(pred, true))} if loss else {}
        pred, true = align(self.keep(pred), true, self.kind, self.out_dim)
        if not loss or true.device.type != "cpu":  # on the CPU computing the loss has checked them
            check_labels(true, self.kind, self.out_dim)
        has_nan = contains_nan(pred)
        for name in dict.fromkeys(chosen):
            metric = self.metrics.get(name) or self._metric(name)
            if isinstance(metric, StatisticMetric):
                scores[name] = metric.compute_aligned(of_metrics[name], of_metrics[name], has_nan)
            else:
                scores[name] = metric.compute_aligned(pred, true, has_nan)
            if metric.reason is not None:
                self.undefined[name] = metric.reason
        return scores | means

    def maximize(self, name: str) -> bool:
        """Whether larger values of a metric are better; False for a statistic that is none."""
        return self._is_metric(name) and (self.metrics.get(name) or self._metric(name)).maximize

    def _metric(self, name: str) -> Metric:
        return registry.construct(registry.lookup(registry.METRICS, name), {}, self._context)

    def _is_metric(self, name: str) -> bool:
        return name in self.metrics or name in registry.names(registry.METRICS)

    def _mean(self, name: str, values: Tensor) -> float:
        try:
            return float(mean_of_defined(to_double(values), ~values.isnan(), "no graph has a number"))
        except Undefined as undefined:
            self.undefined[name] = str(undefined)
            return math.nan

    def _is_computable(self, name: str, statistics: Mapping[str, Tensor]) -> bool:
        """Statistics of modules are known in evaluation only."""
        return name in statistics or not isinstance(self.metrics[name], StatisticMetric)


def _joined(rows: Tensor | Sequence[Tensor]) -> Tensor:
    if isinstance(rows, Tensor):
        return rows
    return rows[0] if len(rows) == 1 else torch.cat(list(rows))
