"""The captured training step: everything from graph numbers to moved parameters as one recorded piece of work.

A step of a small model is some hundred kernels, and the host needs longer to launch them than the device to run them.
So the step of every class of batches (:mod:`graphbench.structures.capacity`) is recorded once, as a CUDA graph that
begins with the assembly of the batch and ends with the optimizer and the numbers for logs and metrics, and then
replayed: the host copies the graph numbers, and launches once. Learning rates are tensors; random numbers come from the
device's generator, whose state a replay advances as the step itself would, so that checkpoints hold all there is to
resume. :func:`~graphbench.train.recording.record` compares every graph with the step before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.structures import AssemblesOnDevice, BatchPlan, Capacity
from graphbench.train.device_rates import DeviceRates
from graphbench.train.recording import BatchInput, CaptureFailed, Snapshot, Work, record
from graphbench.train.step_graph import StepGraph, StepGraphs, recording_errors
from graphbench.train.tally import Place, StepOutput, Tally
from graphbench.train.training_step import TrainingStep

CAPTURABLE_OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
"""Optimizers that read learning rate and number of steps from tensors; all their state begins at 0."""


@dataclass(frozen=True, eq=False)
class _Recorded:
    """One class of batches: its step, and what the step reads."""

    graph: StepGraph
    batch: BatchInput


class CapturedSteps:
    """Training steps by replay, for batches of classes; everything else is left to the caller.

    Where the gradients of several batches are added up, they lie in tensors that all graphs share, and a class has up
    to four graphs: of batches that begin a group or not, and end it or not.

    Args:
        graphs: makes graphs.
        loaders: assemble batches on the device.
        step: forward, backward and update.
        model: model whose parameters and buffers a step changes.
        optimizer: optimizer of the parameters.
        device: device of all of them.
        accumulates: whether gradients of several batches are added up.

    Where several processes exchange gradients, those lie in the buffers of the exchange, and a graph ends with the
    backward pass: the caller updates.
    """

    def __init__(
        self,
        graphs: StepGraphs,
        loaders: AssemblesOnDevice,
        step: TrainingStep,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        accumulates: bool = False,
    ) -> None:
        self._graphs = graphs
        self._loaders = loaders
        self._step = step
        self._model = model
        self._optimizer = optimizer
        self._device = device
        self._rates = DeviceRates(optimizer, device)
        self._tally = Tally(loaders.num_train_batches, loaders.num_train_rows)
        self._recorded: dict[tuple[Capacity | None, bool, bool], _Recorded] = {}
        self._exchange = step.exchange
        self._accumulates = accumulates or self._exchange is not None
        # Of the group, where they are added up.
        self._gradients: list[Tensor] = [] if self._exchange is None else self._exchange.gradients

    def begin_epoch(self) -> None:
        """Before the first batch of an epoch: what was returned in the one before is overwritten."""
        self._tally.begin()

    def forget_gradients(self) -> None:
        """Before a group whose first batch is not captured."""
        if self._gradients:
            torch._foreach_zero_(self._gradients)
        else:
            self._step.forget_gradients()

    def __call__(self, plan: BatchPlan, begins_group: bool = True, ends_group: bool = True) -> StepOutput:
        """The step on a batch whose plan :attr:`~graphbench.structures.BatchPlan.is_captured`.

        Args:
            plan: plan of the batch.
            begins_group: whether no gradients are there yet.
            ends_group: whether the parameters are updated behind it: by the caller, where processes exchange gradients.

        Returns:
            Views of buffers, valid until the next epoch begins.

        Raises:
            CaptureFailed: the model is as it was before the step.
        """
        place = self._tally.reserve(plan.rows)
        recorded = self._recording(plan, place, begins_group, ends_group)
        self._rates.refresh()
        if plan.graphs is not None:  # the one batch of all graphs is that of the recording, at the same place
            recorded.batch.set(BatchInput.content(self._loaders.numbers_of(plan), place))
        recorded.graph.replay()
        return self._tally.read(place, plan.rows)

    def prepare(self, plan: BatchPlan, begins_group: bool = True, ends_group: bool = True) -> None:
        """Records the step of such batches before an epoch begins; arguments and errors as for a call."""
        self._tally.begin()
        self._recording(plan, self._tally.reserve(plan.rows), begins_group, ends_group)

    def _recording(self, plan: BatchPlan, place: Place, begins_group: bool, ends_group: bool) -> _Recorded:
        kind = (plan.capacity, begins_group, ends_group)
        if kind not in self._recorded:
            self._recorded[kind] = self._record(plan, place, begins_group, ends_group)
        return self._recorded[kind]

    def _record(self, plan: BatchPlan, place: Place, begins_group: bool, ends_group: bool) -> _Recorded:
        batch = BatchInput(self._loaders.numbers_of(plan), place, self._device)
        if self._accumulates and not self._gradients:
            self._make_gradients(plan, batch)

        def step() -> None:
            if begins_group:
                self.forget_gradients()
            output = self._step.backward(self._loaders.assemble(plan, batch.numbers))
            if ends_group and self._exchange is None:
                self._step.update()
            self._tally.write(batch.place, output)

        work = Work(step, batch, self._tally, place, plan.rows)
        before = Snapshot(
            self._model, self._optimizer, adds_gradients=self._accumulates, precision=self._step.precision
        )
        return _Recorded(record(self._graphs, work, before, self._rates.in_use), batch)

    def _make_gradients(self, plan: BatchPlan, batch: BatchInput) -> None:
        """Tensors in no graph's memory, for the parameters that get a gradient at all: the others have none."""
        before = Snapshot(self._model, precision=self._step.precision)
        known = [parameter.grad for parameter in self._model.parameters()]  # of batches that were not captured
        try:
            self._graphs.warm_up(lambda: self._backward_only(plan, batch))
        except recording_errors() as error:
            for parameter, gradient in zip(self._model.parameters(), known, strict=True):
                parameter.grad = gradient
            raise CaptureFailed.because_of(error) from error
        finally:
            before.restore()
        for parameter, gradient in zip(self._model.parameters(), known, strict=True):
            if parameter.grad is not None or gradient is not None:
                parameter.grad = torch.zeros_like(parameter) if gradient is None else gradient
                self._gradients.append(parameter.grad)

    def _backward_only(self, plan: BatchPlan, batch: BatchInput) -> None:
        self._step.forget_gradients()
        self._step.backward(self._loaders.assemble(plan, batch.numbers))
