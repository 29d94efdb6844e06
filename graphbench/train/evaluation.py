"""Validation and test: as many forward passes as there are batches, never one per split of the same graph."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from lightning_fabric import Fabric
from torch import Tensor

from graphbench.structures import GraphBatch
from graphbench.train.forward import Predictor
from graphbench.train.tally import Tally, Task
from graphbench.train.transfer import constant_on_host


class EvalPass(Protocol):
    """One sweep of forward passes that serves one or several splits.

    Attributes:
        rows: split -> indices into the predictions of all batches behind each other, None for all of them. With
            several processes each has its own rows (or batches), disjoint and together complete.
    """

    rows: Mapping[str, Tensor | None]

    def batches(self) -> Iterator[GraphBatch]:
        """The batches, on the device."""
        ...


class Loaders(Protocol):
    """Where the loop's batches come from."""

    num_train_batches: int
    passes: Iterable[EvalPass]

    def train(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor | None]]:
        """Batches and the rows of their prediction that count (None: all); order given by the epoch alone."""
        ...


@dataclass(frozen=True)
class Collected:
    """One split's predictions.

    Attributes:
        tally: of all processes.
        seconds: time of the pass.
        batches: batches of the pass, in this process.
    """

    tally: Tally
    seconds: float
    batches: int


def evaluate(
    predict: Predictor, task: Task, passes: Iterable[EvalPass], fabric: Fabric, skip: tuple[str, ...] = ("train",)
) -> dict[str, Collected]:
    """Predictions and losses per split.

    Args:
        predict: gives the predictions; the model must be in evaluation mode.
        task: gives the loss of a batch.
        passes: see :class:`EvalPass`.
        fabric: its processes' rows are gathered.
        skip: splits left out; training is measured from the training passes.

    Where splits share the rows of one batch, its graphs belong to all of them: what layers say about a graph is kept
    for each split. The head is not asked, because it judges the predictions of all splits together. Training passes are
    not observed: there dropout is on, and every step would pay for it.
    """
    results: dict[str, Collected] = {}
    for each in passes:
        splits = {split: rows for split, rows in each.rows.items() if split not in skip}
        if not splits:
            continue
        start = time.perf_counter()
        whole = Tally()
        in_batches = any(rows is None for rows in splits.values())
        for batch in each.batches():
            prediction, statistics = predict(batch, heads=in_batches)
            loss = task.loss(prediction, batch.y) if in_batches else None
            whole.add(loss, task.keep(prediction) if in_batches else prediction, batch.y, statistics)
        if not in_batches and whole.is_small:
            if len(whole.trues) == 1:  # one graph, whose targets are those of every epoch
                whole.trues = [constant_on_host(whole.trues[0])]
            whole.fetch()
        for split, rows in splits.items():
            tally = whole if rows is None else _select(whole, rows)
            results[split] = Collected(tally.gathered(fabric), time.perf_counter() - start, len(whole.preds))
    return results


def synchronise_buffers(model: torch.nn.Module, fabric: Fabric) -> None:
    """Gives every process the first one's buffers (BatchNorm statistics), so that all evaluate one model."""
    if fabric.world_size > 1:
        for buffer in model.buffers():
            torch.distributed.broadcast(buffer, 0)


def _select(whole: Tally, rows: Tensor) -> Tally:
    prediction = whole.preds[0] if len(whole.preds) == 1 else torch.cat(whole.preds)
    true = whole.trues[0] if len(whole.trues) == 1 else torch.cat(whole.trues)
    if prediction.device.type == "cpu":
        rows, true = constant_on_host(rows), constant_on_host(true)
    tally = Tally()
    tally.add(None, prediction.index_select(0, rows), true.index_select(0, rows))
    tally.statistics = whole.statistics
    return tally
