"""Validation and test: as many forward passes as there are batches, never one per split of the same graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.structures import EvaluationPass
from graphbench.tasks.task import Task
from graphbench.train.captured_evaluation import CapturedEvaluation
from graphbench.train.fabric import Fabric
from graphbench.train.forward import Predictor
from graphbench.train.host_copy import constant_on_host
from graphbench.train.prediction_buffer import PredictionBuffer


@dataclass(frozen=True)
class SplitPredictions:
    """One split's predictions.

    Attributes:
        buffer: predictions of all processes.
        seconds: time of the pass.
        batches: batches of the pass, in this process.
    """

    buffer: PredictionBuffer
    seconds: float
    batches: int


def evaluate(
    predict: Predictor,
    task: Task,
    passes: Iterable[EvaluationPass],
    fabric: Fabric,
    skip: tuple[str, ...] = ("train",),
) -> dict[str, SplitPredictions]:
    """Predictions and losses per split: :func:`launch` and :func:`collect` in one go."""
    return collect(launch(predict, task, passes, skip), fabric)


@dataclass(frozen=True)
class LaunchedPass:
    """A pass whose predictions the device may still be computing.

    Attributes:
        splits: rows of each; None: all.
        whole: predictions of all batches.
        by_batch: whether to add losses and what heads say.
        seconds: time that launching it took.
    """

    splits: Mapping[str, Tensor | None]
    whole: PredictionBuffer
    by_batch: bool
    seconds: float


def launch(
    predict: Predictor,
    task: Task,
    passes: Iterable[EvaluationPass],
    skip: tuple[str, ...] = ("train",),
    captured: CapturedEvaluation | None = None,
    before_python: Callable[[], None] | None = None,
) -> list[LaunchedPass]:
    """Passes under way; replayed ones ask the device for nothing.

    Where splits share the rows of one batch, its graphs belong to all of them: what layers say about a graph is kept
    for each split. The head is not asked, because it judges the predictions of all splits together. Training passes are
    not observed: there dropout is on, and every step would pay for it.

    Args:
        predict: gives the predictions; the model must be in evaluation mode.
        task: gives the loss of a batch.
        passes: passes of the data loaders.
        skip: splits left out; training is measured from the training passes.
        captured: does the passes by replay, where it can. Predictions are then valid until its next evaluation.
        before_python: called before every pass that is done batch by batch, also where capturing it has failed.
    """
    launched: list[LaunchedPass] = []
    for eval_pass, splits, by_batch in _asked(passes, skip):
        start = time.perf_counter()
        whole = None if captured is None else captured(eval_pass, by_batch)
        if whole is None:
            if before_python is not None:
                before_python()
                start = time.perf_counter()
            whole = _predictions(predict, task, eval_pass, by_batch)
        launched.append(LaunchedPass(splits, whole, by_batch, time.perf_counter() - start))
    return launched


def collect(launched: Iterable[LaunchedPass], fabric: Fabric) -> dict[str, SplitPredictions]:
    """Predictions and losses per split, of the rows of all processes; few of them on the host, which waits for them.

    Args:
        launched: passes of :func:`launch`.
        fabric: fabric whose processes' rows are gathered.
    """
    results: dict[str, SplitPredictions] = {}
    for each in launched:
        start = time.perf_counter() - each.seconds
        if not each.by_batch:
            _fetch(each.whole)
        for split, rows in each.splits.items():
            buffer = each.whole if rows is None else _select(each.whole, rows)
            gathered = buffer.gathered(fabric)
            results[split] = SplitPredictions(gathered, time.perf_counter() - start, batches=len(each.whole.preds))
    return results


def prepare(passes: Iterable[EvaluationPass], captured: CapturedEvaluation, skip: tuple[str, ...] = ("train",)) -> None:
    """Records what :func:`launch` replays; arguments as there, the model in evaluation mode."""
    for eval_pass, _splits, by_batch in _asked(passes, skip):
        captured.prepare(eval_pass, by_batch)


def _asked(
    passes: Iterable[EvaluationPass], skip: tuple[str, ...]
) -> Iterator[tuple[EvaluationPass, dict[str, Tensor | None], bool]]:
    """Passes that serve a split that is not left out, with their rows, and whether one has all rows of a batch."""
    for eval_pass in passes:
        splits = {split: rows for split, rows in eval_pass.rows.items() if split not in skip}
        if splits:
            yield eval_pass, splits, any(rows is None for rows in splits.values())


def _predictions(predict: Predictor, task: Task, eval_pass: EvaluationPass, by_batch: bool) -> PredictionBuffer:
    """Predictions of all batches; with losses and what heads say only where a split has all rows of a batch."""
    buffer = PredictionBuffer()
    for batch, rows in eval_pass.batches():
        true = batch.y
        assert true is not None
        prediction, statistics = predict(batch, heads=by_batch)
        if rows is not None:
            prediction, true = prediction.index_select(0, rows), true.index_select(0, rows)
        loss = task.loss(prediction, true) if by_batch else None
        buffer.add(loss, task.keep(prediction) if by_batch else prediction, true, statistics)
    return buffer


def _fetch(whole: PredictionBuffer) -> None:
    """Brings predictions that several splits share to the host, where they are few."""
    if whole.is_small:
        if len(whole.trues) == 1:  # one graph, whose targets are those of every epoch
            whole.trues = [constant_on_host(whole.trues[0])]
        whole.fetch()


def _select(whole: PredictionBuffer, rows: Tensor) -> PredictionBuffer:
    """Some rows of all batches, as one batch without a loss."""
    prediction = whole.preds[0] if len(whole.preds) == 1 else torch.cat(whole.preds)
    true = whole.trues[0] if len(whole.trues) == 1 else torch.cat(whole.trues)
    if prediction.device.type == "cpu":
        rows, true = constant_on_host(rows), constant_on_host(true)
    buffer = PredictionBuffer()
    buffer.add(None, prediction.index_select(0, rows), true.index_select(0, rows))
    buffer.statistics = whole.statistics
    return buffer
