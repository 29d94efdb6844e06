"""The captured training step: everything from graph numbers to moved parameters as one recorded piece of work.

A step of a small model is some hundred kernels, and the host needs longer to launch them than the device to run them.
So the step of every class of batches (:mod:`graphbench.structures.capacity`) is recorded once, as a CUDA graph that
begins with the assembly of the batch and ends with the optimizer, and then replayed: the host copies the graph numbers,
and launches once. Learning rates are tensors; random numbers come from the device's generator, whose state a replay
advances as the step itself would, so that checkpoints hold all there is to resume.

Before a class is replayed for the first time, its step is done once without the graph, undone, recorded with other
parameters, replayed, and compared: a kernel that is not part of the graph (one on another stream, say) leaves other
numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.structures import AssemblesOnDevice, BatchPlan, Capacity
from graphbench.train.random_state import random_state, set_random_state
from graphbench.train.step_graph import StepGraph, StepGraphs
from graphbench.train.training_step import StepOutput, TrainingStep

logger = logging.getLogger("graphbench")

CAPTURABLE_OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
"""Optimizers that read learning rate and number of steps from tensors; all their state begins at 0."""

LARGEST_DIFFERENCE = 1e-3
"""Of gradients, relative to the largest, between a replay and the step itself: the same kernels on the same numbers
differ by rounding at most, where sums have no fixed order. Another dropout mask differs by about 1."""


class CaptureFailed(RuntimeError):
    """A step could not be captured, or its replay is not the step."""


class DeviceRates:
    """Learning rates as tensors, which a captured optimizer reads; outside the optimizer keeps its numbers.

    Args:
        optimizer: whose groups' ``lr`` are the rates.
        device: of the tensors.
    """

    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        self._optimizer = optimizer
        self._device = device
        self._tensors = [torch.tensor(group["lr"], device=device) for group in optimizer.param_groups]
        self._values = [float(group["lr"]) for group in optimizer.param_groups]

    def refresh(self) -> None:
        """Hands rates that have changed to the device."""
        for i, group in enumerate(self._optimizer.param_groups):
            if group["lr"] != self._values[i]:
                self._values[i] = group["lr"]
                self._tensors[i].fill_(group["lr"])

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, the optimizer has the tensors in place of its rates."""
        self.refresh()
        # With "capturable" an optimizer that is not being captured refuses devices but GPUs.
        flag = self._device.type == "cuda"
        keys = ("lr", "capturable")
        before: list[dict[str, Any]] = [{key: group[key] for key in keys if key in group} for group in self._groups]
        for group, rate in zip(self._groups, self._tensors, strict=True):
            group["lr"] = rate
            if "capturable" in group:
                group["capturable"] = flag
        try:
            yield
        finally:
            for group, values in zip(self._groups, before, strict=True):
                group.update(values)

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return self._optimizer.param_groups


@dataclass
class _Recorded:
    """One class of batches.

    Attributes:
        graph: its step.
        numbers: (B,) int64 graph numbers that the step reads.
        output: what a replay leaves.
    """

    graph: StepGraph
    numbers: Tensor
    output: StepOutput


class CapturedSteps:
    """Training steps by replay, for batches of classes; everything else is left to the caller.

    Args:
        graphs: makes graphs.
        loaders: assemble batches on the device.
        step: forward, backward and update.
        model: whose parameters and buffers a step changes.
        optimizer: of the parameters.
        device: of all of them.
    """

    def __init__(
        self,
        graphs: StepGraphs,
        loaders: AssemblesOnDevice,
        step: TrainingStep,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
    ) -> None:
        self._graphs = graphs
        self._loaders = loaders
        self._step = step
        self._model = model
        self._optimizer = optimizer
        self._device = device
        self._rates = DeviceRates(optimizer, device)
        self._recorded: dict[Capacity | None, _Recorded] = {}

    def __call__(self, plan: BatchPlan) -> StepOutput:
        """The step on a batch whose plan :attr:`~graphbench.structures.BatchPlan.is_captured`.

        Raises:
            CaptureFailed: the model is as it was before the step.
        """
        if plan.capacity not in self._recorded:
            self._recorded[plan.capacity] = self._record(plan)
        recorded = self._recorded[plan.capacity]
        self._rates.refresh()
        recorded.numbers.copy_(self._loaders.numbers_of(plan), non_blocking=True)
        recorded.graph.replay()
        return _first_rows(recorded.output, plan.rows)

    def _record(self, plan: BatchPlan) -> _Recorded:
        """The graph of a class, compared with the step itself; nothing is changed by it."""
        numbers = self._loaders.numbers_of(plan).to(self._device)
        before = _Snapshot.take(self._model, self._optimizer)
        outputs: list[StepOutput] = []

        def work() -> None:
            self._step.forget_gradients()
            output = self._step.backward(self._loaders.assemble(plan, numbers))
            self._step.update()
            outputs.append(output)

        try:
            with self._rates.in_use():
                self._graphs.warm_up(work)
                expected = _Result.of(outputs.pop(), self._model, before)
                before.restore(self._model, self._optimizer)
                self._step.forget_gradients()
                original = numbers.clone()
                self._disturb(numbers)
                graph = self._graphs.new()
                graph.capture(work)
            recorded = _Recorded(graph, numbers, outputs.pop())
            numbers.copy_(original)
            before.restore(self._model, self._optimizer)
            graph.replay()
            replayed = _Result.of(recorded.output, self._model, before)
        except RuntimeError as error:
            before.restore(self._model, self._optimizer)
            self._step.forget_gradients()
            raise CaptureFailed(str(error).partition("\n")[0]) from error
        before.restore(self._model, self._optimizer)
        self._step.forget_gradients()  # those in the graph's memory: a step without it adds to none of them
        difference = replayed.difference(expected)
        if difference is not None:
            raise CaptureFailed(f"a replayed step is not the step itself: {difference}")
        return recorded

    @torch.no_grad()
    def _disturb(self, numbers: Tensor) -> None:
        """Other graphs and parameters while a step is recorded: what is left over from then shows in a replay."""
        numbers.copy_(numbers.roll(1))
        for parameter in self._model.parameters():
            parameter.mul_(0.5)


def _first_rows(output: StepOutput, rows: int) -> StepOutput:
    """A copy, without padding: the next replay writes onto the original."""
    return StepOutput(output.loss.clone(), output.kept[:rows].clone(), output.true[:rows].clone())


@dataclass
class _Snapshot:
    """Everything a training step changes: parameters, buffers, moments, random numbers."""

    model: list[Tensor]
    moments: dict[tuple[int, str], Tensor]
    random: dict[str, Any]

    @classmethod
    def take(cls, model: nn.Module, optimizer: Optimizer) -> _Snapshot:
        """A copy."""
        return cls(
            [tensor.detach().clone() for tensor in _tensors(model)],
            {key: tensor.clone() for key, tensor in _moments(optimizer)},
            random_state(),
        )

    @torch.no_grad()
    def restore(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Puts the values back where they were; moments that did not exist are 0, where all begin."""
        for tensor, value in zip(_tensors(model), self.model, strict=True):
            tensor.copy_(value)
        for key, tensor in _moments(optimizer):
            if key in self.moments:
                tensor.copy_(self.moments[key])
            else:
                tensor.zero_()
        set_random_state(self.random)


@dataclass
class _Result:
    """What a step did.

    Attributes:
        loss: of the batch.
        gradients: after clipping.
        buffers: running statistics and the like.
        moves: of the parameters.
    """

    loss: Tensor
    gradients: list[Tensor | None]
    buffers: list[Tensor | None]
    moves: list[Tensor]

    @classmethod
    def of(cls, output: StepOutput, model: nn.Module, before: _Snapshot) -> _Result:
        """Of the step that was just done."""
        parameters = list(model.parameters())
        return cls(
            output.loss.clone(),
            [None if each.grad is None else each.grad.clone() for each in parameters],
            [each.clone() for each in model.buffers()],
            [each.detach() - old for each, old in zip(parameters, before.model, strict=False)],
        )

    def difference(self, expected: _Result) -> str | None:
        """What is not as expected; None where all is. Waits for the device."""
        if [each is None for each in self.gradients] != [each is None for each in expected.gradients]:
            return "other parameters have gradients"
        loss, expected_loss = float(self.loss), float(expected.loss)
        if not abs(loss - expected_loss) <= LARGEST_DIFFERENCE * max(abs(expected_loss), 1e-3):
            return f"loss {loss:g} in place of {expected_loss:g}"
        error, largest = _error_and_largest(self.gradients, expected.gradients)
        if not error <= LARGEST_DIFFERENCE * largest:
            return f"gradients differ by {error:.1e}, the largest is {largest:.1e}"
        error, largest = _error_and_largest(self.buffers, expected.buffers)
        if not error <= LARGEST_DIFFERENCE * max(largest, 1.0):
            return f"buffers differ by {error:.1e}, the largest is {largest:.1e}"
        # Adam divides gradients that are nothing but rounding by themselves, so that single parameters may move
        # the other way; a graph without the update moves none.
        error, length = (
            float(torch.stack([part.double().norm() for part in parts]).norm())
            for parts in ([a - b for a, b in zip(self.moves, expected.moves, strict=True)], expected.moves)
        )
        return None if error <= 0.5 * length else f"the update differs by {error:.1e} of {length:.1e}"


def _error_and_largest(ours: Sequence[Tensor | None], theirs: Sequence[Tensor | None]) -> tuple[float, float]:
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    error = max((float((a - b).abs().max()) for a, b in pairs if a.numel()), default=0.0)
    return error, max((float(b.abs().max()) for _, b in pairs if b.numel()), default=0.0)


def _tensors(model: nn.Module) -> list[Tensor]:
    """Parameters first."""
    return [*model.parameters(), *model.buffers()]


def _moments(optimizer: Optimizer) -> Iterator[tuple[tuple[int, str], Tensor]]:
    for number, parameter in enumerate(each for group in optimizer.param_groups for each in group["params"]):
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                yield (number, name), value
