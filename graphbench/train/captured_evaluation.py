"""Captured evaluation: assembly, forward pass, loss and statistics of a batch as one recorded piece of work.

The batches of a pass are the same in every epoch, so that their graph numbers are copied to the device once: an
evaluation is as many replays as there are batches, and one copy of what they leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from graphbench.structures import AssemblesOnDevice, BatchPlan, Capacity, EvaluationPass
from graphbench.tasks.task import Task
from graphbench.train.forward import Predictor
from graphbench.train.prediction_buffer import PredictionBuffer
from graphbench.train.recording import BatchInput, CaptureFailed, Snapshot, Work, give_up, record
from graphbench.train.step_graph import StepGraph, StepGraphs
from graphbench.train.tally import Place, StepOutput, Tally

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Batch:
    """One batch of a pass.

    Attributes:
        plan: plan of the batch.
        place: place in the tally.
        graphs: number of graphs in it.
        content: numbers that recorded work reads about the batch, on the device.
    """

    plan: BatchPlan
    place: Place
    graphs: int
    content: Tensor


@dataclass(eq=False)
class _Pass:
    """One pass over a split (or over the graph that all splits share).

    Attributes:
        source: pass of the loaders.
        batches: batches in their order.
        tally: tally of the predictions.
        graphs: recorded work of every class, and its input.
    """

    source: EvaluationPass
    batches: list[_Batch]
    tally: Tally
    graphs: dict[Capacity | None, tuple[StepGraph, BatchInput]] = field(default_factory=dict)


class CapturedEvaluation:
    """Passes of evaluation by replay.

    Args:
        graphs: makes graphs.
        loaders: assemble batches on the device.
        predict: the model without gradients.
        task: loss.
        model: model whose parameters a forward pass reads, in evaluation mode.
        device: device of all of them.
        required: whether it is an error that a pass cannot be captured (``train.capture: always``).
    """

    def __init__(
        self,
        graphs: StepGraphs,
        loaders: AssemblesOnDevice,
        predict: Predictor,
        task: Task,
        model: nn.Module,
        device: torch.device,
        required: bool = False,
    ) -> None:
        self._graphs = graphs
        self._loaders = loaders
        self._predict = predict
        self._task = task
        self._model = model
        self._device = device
        self._required = required
        self._given_up = False
        self._passes: list[_Pass] = []

    def __call__(self, eval_pass: EvaluationPass, by_batch: bool) -> PredictionBuffer | None:
        """Predictions of all batches, views of buffers that the next pass over them writes to.

        Args:
            eval_pass: pass of the loaders, always the same object.
            by_batch: whether to add losses and what heads say, for splits that have all rows of their batches.

        Returns:
            None where it has to be done batch by batch, after a line in the log.

        Raises:
            UserError: it could not be captured, and had to be.
        """
        return self._attempt(eval_pass, partial(self._replayed, by_batch=by_batch))

    def prepare(self, eval_pass: EvaluationPass, by_batch: bool) -> None:
        """Records the work of a pass before its first one; arguments and errors as for a call."""

        def record_all(of_pass: _Pass) -> None:
            for batch in of_pass.batches:
                self._recording(of_pass, batch, by_batch)

        self._attempt(eval_pass, record_all)

    def _attempt(self, eval_pass: EvaluationPass, work: Callable[[_Pass], T]) -> T | None:
        if self._given_up or eval_pass.plans is None:
            return None
        try:
            return work(self._pass_of(eval_pass))
        except CaptureFailed as failed:
            give_up(failed, "evaluation", "evaluating batch by batch", self._required)
            self._given_up = True
            self._passes.clear()
            return None

    def _replayed(self, of_pass: _Pass, by_batch: bool) -> PredictionBuffer:
        buffer = PredictionBuffer()
        for batch in of_pass.batches:
            graph, read = self._recording(of_pass, batch, by_batch)
            read.set(batch.content)
            graph.replay()
            output = of_pass.tally.read(batch.place, batch.plan.rows, batch.graphs)
            buffer.add(output.loss, output.kept, output.true, output.statistics)
        return buffer

    def _recording(self, of_pass: _Pass, batch: _Batch, by_batch: bool) -> tuple[StepGraph, BatchInput]:
        if batch.plan.capacity not in of_pass.graphs:
            of_pass.graphs[batch.plan.capacity] = self._record(of_pass, batch, by_batch)
        return of_pass.graphs[batch.plan.capacity]

    def _record(self, of_pass: _Pass, batch: _Batch, by_batch: bool) -> tuple[StepGraph, BatchInput]:
        read = BatchInput(self._loaders.numbers_of(batch.plan), batch.place, self._device)

        @torch.no_grad()
        def forward() -> None:
            on_device = self._loaders.assemble(batch.plan, read.numbers)
            true = on_device.batch.y
            assert true is not None
            prediction, statistics = self._predict(on_device.batch, heads=by_batch)
            real = () if on_device.real is None else (on_device.real,)
            loss = self._task.loss(prediction, true, *real) if by_batch else None
            kept = self._task.keep(prediction) if by_batch else prediction
            of_pass.tally.write(read.place, StepOutput(loss, kept, true, statistics))

        work = Work(forward, read, of_pass.tally, batch.place, batch.plan.rows, batch.graphs)
        return record(self._graphs, work, Snapshot(self._model)), read

    def _pass_of(self, eval_pass: EvaluationPass) -> _Pass:
        known = next((each for each in self._passes if each.source is eval_pass), None)
        if known is not None:
            return known
        assert eval_pass.plans is not None
        plans = list(eval_pass.plans())
        if not all(plan.is_captured for plan in plans):
            raise CaptureFailed("a batch fits no capacity")
        graphs = [self._loaders.num_graphs_of(plan) for plan in plans]
        tally = Tally(len(plans), sum(plan.rows for plan in plans), sum(graphs))
        batches = []
        for plan, number in zip(plans, graphs, strict=True):
            place = tally.reserve(plan.rows, number)
            content = BatchInput.content(self._loaders.numbers_of(plan), place)
            batches.append(_Batch(plan, place, number, content.to(self._device)))
        self._passes.append(_Pass(eval_pass, batches, tally))
        return self._passes[-1]
