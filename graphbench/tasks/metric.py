"""Base class of metrics: one float from all predictions of a pass, or NaN and the reason for it."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.errors import ArgumentError
from graphbench.registry import FromContext
from graphbench.tasks.targets import align, check_labels, kind_of


class Undefined(Exception):
    """The metric has no value for these labels; the text is the reason. Becomes NaN in :meth:`Metric.__call__`."""


class Metric:
    """A measure of the quality of predictions.

    A subclass names the kinds of task it is for and computes :meth:`value` from aligned tensors. Where the metric has
    no value (no rows, one class only, all labels missing, NaN among the predictions) calling it gives NaN and sets
    :attr:`reason`; it never raises because of the values of its inputs.

    Args:
        task_type: see ``structures.data_info.TASK_TYPES``.
        out_dim: width of the prediction.
        thresh: probability above which a label counts as predicted (``model.thresh``).

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`.
        maximize: True when larger values are better.
        needs_order: the value depends on the order of rows, which several processes do not keep.
        kinds: kinds of task that it is for, see :data:`graphbench.tasks.targets.KINDS`.
        reason: why the last call gave NaN; None when it gave a number.
    """

    maximize: ClassVar[bool] = True
    needs_order: ClassVar[bool] = False
    registered_name: ClassVar[str] = ""
    kinds: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, task_type: FromContext[str], out_dim: FromContext[int], thresh: FromContext[float] = 0.5
    ) -> None:
        self.kind = kind_of(task_type, out_dim)
        if self.kind not in self.kinds:
            name = self.registered_name or type(self).__name__
            raise ValueError(f"the metric {name} is for {' and '.join(self.kinds)} tasks, this one is {self.kind}")
        if not 0.0 < thresh < 1.0:
            raise ArgumentError("thresh", f"thresh must lie strictly between 0 and 1, received {thresh}")
        self.out_dim = out_dim
        self.logit_threshold = math.log(thresh / (1.0 - thresh))
        self.reason: str | None = None

    def __call__(self, pred: Tensor, true: Tensor) -> float:
        """The metric over all rows.

        Args:
            pred: (R, out_dim) raw predictions (logits), of a whole pass.
            true: targets, see :mod:`graphbench.tasks.targets`.

        Raises:
            ValueError: shapes that do not fit, or a label outside its range.
        """
        pred, true = align(pred.detach(), true.detach(), self.kind, self.out_dim)
        check_labels(true, self.kind, self.out_dim)
        return self.of_aligned(pred, true, bool(pred.isnan().any()))

    def of_aligned(self, pred: Tensor, true: Tensor, has_nan: bool) -> float:
        """The metric from tensors that are aligned, checked and searched for NaN (once for all metrics)."""
        try:
            if not len(true):
                raise Undefined("there are no rows")
            if has_nan:
                raise Undefined("the predictions contain NaN")
            self.reason = None
            return float(self.value(pred, true))
        except Undefined as reason:
            self.reason = str(reason)
            return math.nan

    @abstractmethod
    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        """The metric from aligned, non-empty tensors.

        Raises:
            Undefined: it has no value for these labels.
        """

    def predicted(self, pred: Tensor) -> Tensor:
        """Predicted labels: the largest logit (multiclass), or the logits above the threshold."""
        return pred.argmax(1) if self.kind == "multiclass" else (pred > self.logit_threshold).long()

    def confusion(self, pred: Tensor, true: Tensor) -> Tensor:
        """(C, C) counts, row = label, column = prediction; for binary and multiclass."""
        classes = max(self.out_dim, 2)
        cell = true.long() * classes + self.predicted(pred)
        return torch.bincount(cell, minlength=classes * classes).view(classes, classes)


class StatisticMetric(Metric):
    """A metric of numbers per graph that the head computes in evaluation, under the metric's name.

    It has no value in training, where hidden states are not kept until metrics are computed.
    """

    def __call__(self, pred: Tensor, true: Tensor) -> float:
        """NaN: it does not follow from predictions and targets of rows."""
        self.reason = "it is computed by the head, in evaluation"
        return math.nan

    def mean(self, values: Tensor, reason: str) -> Tensor:
        """Mean over the graphs whose statistic is not NaN.

        Raises:
            Undefined: with the given reason, where no graph has one.
        """
        return mean_of_defined(wide(values), ~values.isnan(), reason)


def wide(values: Tensor) -> Tensor:
    """``values`` in float64, in which sums over millions of rows are exact enough (float32 on MPS, which has none)."""
    return values.float() if values.device.type == "mps" else values.double()


def mean_of_defined(values: Tensor, defined: Tensor, reason: str) -> Tensor:
    """Mean over the columns (tasks, classes) that have a value.

    Raises:
        Undefined: with the given reason, when none has.
    """
    if not bool(defined.any()):
        raise Undefined(reason)
    return values[defined].mean()
