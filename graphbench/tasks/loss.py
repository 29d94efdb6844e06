"""Base of the losses: shapes and labels are checked before a number comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from graphbench.contract import Capturable, broken, has_abstract_methods, versions, written_to
from graphbench.errors import check_one_of
from graphbench.ops.entrywise_loss import Kind, entrywise_loss
from graphbench.registry import LOSSES, FromContext, components
from graphbench.structures.capacity import RealRows
from graphbench.tasks.targets import align, check_kinds, check_labels, kind_of
from graphbench.vocabulary import TaskKind


class Loss(Capturable, ABC):
    """A scalar to minimise, from raw predictions and targets.

    A subclass names the kinds of task it is for and computes :meth:`value` from aligned tensors.

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`.
        kinds: kinds of task that the loss is for, some of ``binary``, ``multiclass``, ``multilabel``, ``regression``,
            ``subtoken``.
        row_wise: whether every row has a loss of its own, whose mean (or sum) it is, so that rows can be weighted.
        least_rows: fewest rows that the loss says something about; smaller batches have loss and gradient 0.

    Args:
        task_type: see ``vocabulary.TASK_TYPES``.
        out_dim: width of the prediction.
        size_average: ``mean`` or ``sum`` over rows (and columns).
    """

    registered_name: ClassVar[str] = ""
    kinds: ClassVar[tuple[TaskKind, ...]] = ()
    row_wise: ClassVar[bool] = False
    least_rows: ClassVar[int] = 1

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses a loss that can be computed but says of no kind of task that it is for it."""
        super().__init_subclass__(**arguments)
        if cls.kinds or not has_abstract_methods(cls):
            check_kinds(cls, cls.kinds)

    def __init__(self, task_type: FromContext[str], out_dim: FromContext[int], size_average: FromContext[str] = "mean"):
        self.kind: TaskKind = kind_of(task_type, out_dim)
        if self.kind not in self.kinds:
            name = self.registered_name or type(self).__name__
            fitting = [each.registered_name for each in components(LOSSES) if self.kind in each.kinds]
            raise ValueError(
                f"the loss {name} is for {' and '.join(self.kinds)} tasks, this one is {self.kind}. "
                f"Allowed: {', '.join(fitting)}"
            )
        check_one_of(("mean", "sum"), size_average=size_average)
        self.out_dim = out_dim
        self.size_average = size_average

    def __call__(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss.

        Args:
            pred: (R, out_dim) raw predictions.
            true: targets, see :mod:`graphbench.tasks.targets`.
            real: rows that count, of a padded batch; None: all. Only for a loss that is
                :class:`~graphbench.contract.Capturable`, whose ``value`` takes them, too.

        Raises:
            ValueError: shapes that do not fit, or (on CPU, where looking is free) a label outside its range.
        """
        pred, true = align(pred, true, self.kind, self.out_dim)
        if true.device.type == "cpu":
            check_labels(true, self.kind, self.out_dim)
        before = versions(pred, true)
        loss = self.value(pred, true) if real is None else self.value(pred, true, real)
        if versions(pred, true) != before:
            raise written_to(type(self).value, "predictions or targets")
        if not isinstance(loss, Tensor) or loss.dim():
            raise broken(type(self).value, "a scalar tensor ()", loss)
        return loss

    def weighted(self, pred: Tensor, true: Tensor, weight: Tensor) -> Tensor:
        """The sum over rows of weight times the loss of the row alone; for a loss that is ``row_wise``.

        Args:
            pred: (R, out_dim) raw predictions.
            true: targets.
            weight: (R,) of the rows; 1 / R gives the mean over rows.

        Raises:
            ValueError: the loss is not ``row_wise``, shapes that do not fit, or (on CPU) a label outside its range.
        """
        if not self.row_wise:
            name = self.registered_name or type(self).__name__
            raise ValueError(f"the loss {name} reads all rows of a batch together: they cannot be weighted")
        pred, true = align(pred, true, self.kind, self.out_dim)
        if true.device.type == "cpu":
            check_labels(true, self.kind, self.out_dim)
        of_row = torch.func.vmap(lambda p, t: self.value(p.unsqueeze(0), t.unsqueeze(0)))
        return (weight * of_row(pred, true)).sum() if len(true) else pred.sum() * 0.0

    @abstractmethod
    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        """The loss from aligned tensors."""

    def over_entries(
        self, pred: Tensor, true: Tensor, kind: Kind, real: RealRows | None, *, unknown: bool = False
    ) -> Tensor:
        """Sum or mean over the entries that count, see :func:`graphbench.ops.entrywise_loss.entrywise_loss`."""
        rows, mean = None if real is None else real.mask, self.size_average == "mean"
        return entrywise_loss(pred, true, kind, mean=mean, rows=rows, unknown=unknown)

    def reduce(self, total: Tensor, count: int | Tensor) -> Tensor:
        """``total`` or ``total / count``; no rows at all give 0, so that an empty batch moves nothing."""
        if self.size_average == "sum":
            return total
        return total / (count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1))
