"""Losses and predictions of one pass over a split, collected without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from lightning_fabric import Fabric
from torch import Tensor

from graphbench.train.transfer import to_host

HOST_NUMBERS = 1 << 17
"""A pass of at most so many predicted numbers is measured on the host: few rows take it less time than their launches
would."""


class Task(Protocol):
    """What the loop needs of a task."""

    def loss(self, pred: Tensor, true: Tensor) -> Tensor:
        """Scalar loss of (R, C) predictions."""
        ...

    def keep(self, pred: Tensor) -> Tensor:
        """What is collected of a batch's predictions."""
        ...

    def evaluate(
        self,
        pred: Sequence[Tensor],
        true: Sequence[Tensor],
        only: Sequence[str] | None = None,
        *,
        loss: bool = True,
        statistics: Mapping[str, Tensor] | None = None,
    ) -> dict[str, float]:
        """``loss`` (unless it is not wanted) and metrics (all, or the named ones) of the predictions of all batches."""
        ...

    def maximize(self, name: str) -> bool:
        """Whether larger values of a metric are better."""
        ...


class Tally:
    """What one split's batches gave, in one process."""

    def __init__(self) -> None:
        self.losses: list[Tensor] = []
        self.counts: list[int] = []
        self.preds: list[Tensor] = []
        self.trues: list[Tensor] = []
        self.statistics: dict[str, list[Tensor]] = {}
        self._values: list[float] = []  # of the losses looked at so far

    def add(
        self, loss: Tensor | None, pred: Tensor, true: Tensor, statistics: Mapping[str, Tensor] | None = None
    ) -> None:
        """One batch: its mean loss (None: not wanted), what is kept of its predictions, targets, (G,) statistics."""
        if loss is not None:
            self.losses.append(loss.detach())
        self.counts.append(pred.shape[0])
        self.preds.append(pred.detach())
        self.trues.append(true)
        for name, values in (statistics or {}).items():
            self.statistics.setdefault(name, []).append(values)

    def first_non_finite(self) -> int | None:
        """Batch of the first NaN or infinite loss since the last call, or None. Waits for the device once."""
        start = len(self._values)
        return next(
            (start + i for i, value in enumerate(self._loss_values()[start:]) if not math.isfinite(value)), None
        )

    def _loss_values(self) -> list[float]:
        """Every loss is fetched once."""
        unknown = self.losses[len(self._values) :]
        if unknown:
            self._values += [unknown[0].item()] if len(unknown) == 1 else torch.stack(unknown).tolist()
        return self._values

    @property
    def is_small(self) -> bool:
        """Whether it is measured on the host."""
        return sum(each.numel() for each in self.preds) <= HOST_NUMBERS

    def fetch(self) -> None:
        """Brings a small tally to the host, waiting once; nothing is added to it afterwards."""
        if not self.is_small:
            return
        statistics = list(self.statistics)
        lists = [self.losses, self.preds, self.trues, *(self.statistics[name] for name in statistics)]
        arrived = iter(to_host([each for values in lists for each in values]))
        self.losses, self.preds, self.trues, *rest = ([next(arrived) for _ in values] for values in lists)
        self.statistics = dict(zip(statistics, rest, strict=True))

    def gathered(self, fabric: Fabric) -> Tally:
        """The rows of all processes, in every process; each one's own rows once, in the order of ranks."""
        if fabric.world_size == 1:
            return self
        whole = Tally()
        for part in gather_objects(on_cpu(self.state()), fabric):
            for name in _LISTS:
                getattr(whole, name).extend(part[name])
            for name, values in part["statistics"].items():
                whole.statistics.setdefault(name, []).extend(values)
        return whole

    def measure(self, task: Task, only: Sequence[str] | None = None) -> dict[str, float]:
        """Loss and metrics.

        The loss is the mean over rows of the batch losses, as GraphGPS logs it (a weighted cross-entropy depends on
        how the rows were batched); where none were collected it is that of all rows together.

        Args:
            task: gives loss and metrics.
            only: names of the metrics to compute; None: all.

        Raises:
            RuntimeError: no batch at all.
        """
        if not self.preds:
            raise RuntimeError("nothing to measure: the loader gave no batch")
        values: dict[str, float] = {}
        if only is None or only or self.statistics or not self.losses:
            self.fetch()
        if self.losses:
            total = math.fsum(loss * count for loss, count in zip(self._loss_values(), self.counts) if count)
            values["loss"] = total / self.rows if self.rows else math.nan
        statistics = {name: torch.cat(values) for name, values in self.statistics.items()}
        values |= task.evaluate(self.preds, self.trues, only, loss=not self.losses, statistics=statistics)
        # Plain floats, because a checkpoint takes no others.
        return {name: float(value) for name, value in values.items()}

    @property
    def rows(self) -> int:
        """Rows of all batches."""
        return sum(self.counts)

    def state(self) -> dict[str, Any]:
        """What a checkpoint in the middle of an epoch keeps."""
        return {name: getattr(self, name) for name in (*_LISTS, "statistics")}

    @classmethod
    def from_state(cls, state: dict[str, Any], device: torch.device) -> Tally:
        """Inverse of :meth:`state`."""
        tally = cls()
        for name in (*_LISTS, "statistics"):
            setattr(tally, name, _moved(state.get(name, {}), device))
        return tally


_LISTS = ("losses", "counts", "preds", "trues")


def gather_objects(own: Any, fabric: Fabric) -> list[Any]:
    """One object per process, in the order of ranks, in every process."""
    if fabric.world_size == 1:
        return [own]
    parts: list[Any] = [None] * fabric.world_size
    torch.distributed.all_gather_object(parts, own)
    return parts


def on_cpu(state: Mapping[str, Any]) -> dict[str, Any]:
    """A tally's state with every tensor in host memory."""
    return {name: _moved(values, torch.device("cpu")) for name, values in state.items()}


def _moved(values: Any, device: torch.device) -> Any:
    """A copy of nested lists and dictionaries with every tensor on a device."""
    if isinstance(values, Tensor):
        return values.to(device)
    if isinstance(values, Mapping):
        return {name: _moved(each, device) for name, each in values.items()}
    return [_moved(each, device) for each in values] if isinstance(values, list) else values
