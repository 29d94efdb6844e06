"""Base of the metrics: one float from all predictions of a pass, and a reason where there is none."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from graphbench.contract import broken, has_abstract_methods, versions, written_to
from graphbench.errors import ArgumentError
from graphbench.registry import FromContext
from graphbench.tasks.targets import align, check_kinds, check_labels, kind_of
from graphbench.vocabulary import TaskKind


class Undefined(Exception):
    """Labels give the metric no value; the text says why. Becomes NaN in :meth:`Metric.__call__`."""


class Metric(ABC):
    """A number that says how good predictions are.

    A subclass names the kinds of task it is for, says whether larger values are better and computes :meth:`value` from
    aligned tensors. Where the metric has
    no value (no rows, one class only, all labels missing, NaN among the predictions) calling it gives NaN and
    :attr:`reason` says why; it never raises because of the numbers it gets.

    Args:
        task_type: see ``vocabulary.TASK_TYPES``.
        out_dim: width of the prediction.
        thresh: probability above which a label counts as predicted (``model.thresh``).

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`.
        kinds: of task that it is for, some of ``binary``, ``multiclass``, ``multilabel``, ``regression``, ``subtoken``.
        maximize: True when larger values are better; without a default, because epochs are chosen by it.
        needs_order: rows belong together by their order; refused where several processes take turns with them.
        reason: why the last call gave NaN; None when it gave a number.
    """

    maximize: ClassVar[bool]
    needs_order: ClassVar[bool] = False
    registered_name: ClassVar[str] = ""
    kinds: ClassVar[tuple[TaskKind, ...]] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses a metric that can be computed but does not say for which kinds of task, or its direction."""
        super().__init_subclass__(**arguments)
        if cls.kinds or not has_abstract_methods(cls):
            check_kinds(cls, cls.kinds)
        if not has_abstract_methods(cls) and not isinstance(getattr(cls, "maximize", None), bool):
            raise TypeError(
                f"{cls.__qualname__}: maximize must say whether larger values are better, maximize = True as for "
                "accuracy or maximize = False as for an error; the best epoch is chosen by it"
            )

    def __init__(self, task_type: FromContext[str], out_dim: FromContext[int], thresh: FromContext[float] = 0.5):
        self.kind: TaskKind = kind_of(task_type, out_dim)
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
        return self.compute_aligned(pred, true, contains_nan(pred))

    def compute_aligned(self, pred: Tensor, true: Tensor, has_nan: bool) -> float:
        """The metric from tensors that were aligned, checked and searched for NaN already (once for all metrics)."""
        try:
            if not len(true):
                raise Undefined("there are no rows")
            if has_nan:
                raise Undefined("the predictions contain NaN")
            self.reason = None
            before = versions(pred, true)
            value = self.value(pred, true)
            if versions(pred, true) != before:
                raise written_to(type(self).value, "predictions or targets")
        except Undefined as undefined:
            self.reason = str(undefined)
            return math.nan
        if not isinstance(value, (Tensor, numbers.Real)) or (isinstance(value, Tensor) and value.numel() != 1):
            raise broken(type(self).value, "one number", value)
        return float(value)

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

    They are not known in training, where hidden states are gone when metrics are computed.
    """

    def __call__(self, pred: Tensor, true: Tensor) -> float:
        """NaN: predictions and targets of rows say nothing about it."""
        self.reason = "it is computed by the head, in evaluation"
        return math.nan

    def mean(self, values: Tensor, reason: str) -> Tensor:
        """Mean over the graphs whose statistic is a number; infinity and all else spoils it, as it should.

        Raises:
            Undefined: with this reason, where no graph has one.
        """
        return mean_of_defined(to_double(values), ~values.isnan(), reason)


def contains_nan(values: Tensor) -> bool:
    """Whether a number is NaN: then the sum is, which is looked at first because it takes less time."""
    return math.isnan(float(values.sum())) and bool(values.isnan().any())


def to_double(values: Tensor) -> Tensor:
    """Tensor in float64, so that sums over millions of rows keep their digits (float32 where the device has none)."""
    return values.float() if values.device.type == "mps" else values.double()


def mean_of_defined(values: Tensor, defined: Tensor, reason: str) -> Tensor:
    """Mean over the columns (tasks, classes) that have a value.

    Raises:
        Undefined: with this reason, when none has.
    """
    if not bool(defined.any()):
        raise Undefined(reason)
    return values[defined].mean()
