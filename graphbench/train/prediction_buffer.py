"""Losses and predictions of one pass over a split, collected without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from graphbench.tasks.task import Task
from graphbench.train.distributed import gather_objects
from graphbench.train.fabric import Fabric
from graphbench.train.host_copy import Arriving, to_host

HOST_NUMBERS = 1 << 17
"""Metrics of at most so many predicted numbers are computed on the host: few rows take it less time than their launches
would."""


class PredictionBuffer:
    """Losses, predictions, targets and statistics of the batches of one split, in one process.

    Attributes:
        losses: () mean loss per batch; empty where losses were not wanted.
        counts: rows per batch.
        preds: (R, C) predictions per batch, or what :meth:`~graphbench.tasks.task.Task.keep` left of them.
        trues: (R, ...) targets per batch.
        statistics: name -> (G,) per batch.
    """

    def __init__(self) -> None:
        self.losses: list[Tensor] = []
        self.counts: list[int] = []
        self.preds: list[Tensor] = []
        self.trues: list[Tensor] = []
        self.statistics: dict[str, list[Tensor]] = {}
        self._fetched_losses: list[float] = []
        self._arriving: Arriving | None = None

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

    def extend(self, other: PredictionBuffer) -> None:
        """All batches of another buffer."""
        self.losses += other.losses
        self.counts += other.counts
        self.preds += other.preds
        self.trues += other.trues
        for name, values in other.statistics.items():
            self.statistics.setdefault(name, []).extend(values)

    @property
    def rows(self) -> int:
        """Rows of all batches."""
        return sum(self.counts)

    @property
    def is_small(self) -> bool:
        """Whether metrics are computed on the host."""
        return sum(pred.numel() for pred in self.preds) <= HOST_NUMBERS

    def send_losses(self) -> None:
        """Lets :meth:`first_non_finite` wait for the losses so far only, and not for what is launched from here on."""
        new = self.losses[len(self._fetched_losses) :]
        if new and self._arriving is None:
            self._arriving = Arriving(new[0].view(1) if len(new) == 1 else torch.stack(new))

    def first_non_finite(self) -> int | None:
        """Batch of the first NaN or infinite loss since the last call, or None. Waits for the device once."""
        start = len(self._fetched_losses)
        for batch, loss in enumerate(self._loss_values()[start:], start):
            if not math.isfinite(loss):
                return batch
        return None

    def _loss_values(self) -> list[float]:
        """Every loss is fetched once."""
        while len(self._fetched_losses) < len(self.losses):
            self.send_losses()
            assert self._arriving is not None
            self._fetched_losses += self._arriving.numbers()
            self._arriving = None
        return self._fetched_losses

    def fetch(self) -> None:
        """Brings a small buffer to the host, waiting once; nothing is added to it afterwards."""
        lists = [self.losses, self.preds, self.trues, *self.statistics.values()]
        if not self.is_small or all(tensor.device.type == "cpu" for tensors in lists for tensor in tensors):
            return
        arrived = iter(to_host([tensor for tensors in lists for tensor in tensors]))
        self.losses, self.preds, self.trues, *statistics = (list(islice(arrived, len(tensors))) for tensors in lists)
        self.statistics = dict(zip(self.statistics, statistics, strict=True))

    def gathered(self, fabric: Fabric) -> PredictionBuffer:
        """The rows of all processes, in every process; each one's own rows once, in the order of ranks."""
        if fabric.world_size == 1:
            return self
        whole = PredictionBuffer()
        for state in gather_objects(self.state_dict(), fabric):
            whole.extend(PredictionBuffer.from_state_dict(state, torch.device("cpu")))
        return whole

    def compute(self, task: Task, only: Sequence[str] | None = None) -> dict[str, float]:
        """Loss and metrics.

        The loss is the mean over rows of the batch losses, as GraphGPS logs it (a weighted cross-entropy, and one of
        which labels are missing, depend on how the rows were batched); where none were collected it is that of all
        rows together.

        Args:
            task: gives loss and metrics.
            only: names of the metrics to compute; None: all.

        Raises:
            RuntimeError: no batch at all.
        """
        if not self.preds:
            raise RuntimeError("nothing to compute metrics from: the loader gave no batch")
        values: dict[str, float] = {}
        if only is None or only or self.statistics or not self.losses:
            self.fetch()
        if self.losses:
            total = math.fsum(loss * count for loss, count in zip(self._loss_values(), self.counts) if count)
            values["loss"] = total / self.rows if self.rows else math.nan
        statistics = {name: torch.cat(per_batch) for name, per_batch in self.statistics.items()}
        values |= task.evaluate(self.preds, self.trues, only, loss=not self.losses, statistics=statistics)
        # Plain floats, because a checkpoint takes no others.
        return {name: float(value) for name, value in values.items()}

    def state_dict(self) -> dict[str, Any]:
        """State that a checkpoint in the middle of an epoch keeps and other processes receive, on the CPU."""
        cpu = torch.device("cpu")
        return {
            "losses": _moved(self.losses, cpu),
            "counts": list(self.counts),
            "preds": _moved(self.preds, cpu),
            "trues": _moved(self.trues, cpu),
            "statistics": {name: _moved(values, cpu) for name, values in self.statistics.items()},
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any], device: torch.device) -> PredictionBuffer:
        """Inverse of :meth:`state_dict`, on a device."""
        buffer = cls()
        buffer.losses = _moved(state["losses"], device)
        buffer.counts = list(state["counts"])
        buffer.preds = _moved(state["preds"], device)
        buffer.trues = _moved(state["trues"], device)
        statistics: Mapping[str, Sequence[Tensor]] = state.get("statistics", {})
        buffer.statistics = {name: _moved(values, device) for name, values in statistics.items()}
        return buffer


def _moved(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    return [tensor.to(device) for tensor in tensors]
