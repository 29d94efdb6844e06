"""Recording device work so that replays can be believed.

Before work is replayed for the first time it is done once without a graph, undone, recorded with other parameters and
another batch, replayed, and compared: a kernel that is not part of the graph (one on another stream, say) leaves other
numbers.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.errors import UserError
from graphbench.train.precision import Precision
from graphbench.train.random_state import random_state, set_random_state
from graphbench.train.step_graph import StepGraph, StepGraphs, recording_errors
from graphbench.train.tally import Place, StepOutput, Tally

logger = logging.getLogger("graphbench")

LARGEST_DIFFERENCE = 1e-3
"""Difference of gradients, relative to the largest, between a replay and the work: the same kernels on the same numbers
differ by rounding at most, where sums have no fixed order. Another dropout mask differs by about 1."""
ROUNDING = 1e-4
"""Gradient relative to the largest of all, up to which all gradients of a parameter may be rounding alone."""

_PLACE = 3  # numbers of a place


class CaptureFailed(RuntimeError):
    """Work could not be captured, or its replay is not the work."""

    @classmethod
    def because_of(cls, error: Exception) -> CaptureFailed:
        """Failure with what an error says first; one unrelated to capturing is raised again without a graph.

        CUDA refuses to end what it has refused a part of, so that the last error says that there was another.
        """
        while isinstance(error.__context__, recording_errors()):
            error = error.__context__
        return cls(str(error).partition("\n")[0])


def give_up(failed: CaptureFailed, what: str, instead: str, required: bool) -> None:
    """A line in the log: from here on work is done without capturing it.

    Args:
        failed: what kept it from being captured.
        what: the work, for messages.
        instead: what is done now.
        required: whether that is an error (``train.capture: always``).

    Raises:
        UserError: where it is one.
    """
    if required:
        raise UserError(f"train.capture is always, but {what} could not be captured: {failed}") from failed
    reason = str(failed)  # a record of the error itself would keep its frames, and their tensors
    logger.info("%s, without capturing: %s", instead, reason)


class BatchInput:
    """Numbers that recorded work reads about its batch: place in the pass and graph numbers, one copy from the host.

    Args:
        numbers: (B,) int64 graph numbers of a first batch, on the host.
        place: place of that batch.
        device: device of the work.
    """

    def __init__(self, numbers: Tensor, place: Place, device: torch.device) -> None:
        self._content = self.content(numbers, place).to(device)
        self._given: Tensor | None = None
        self.place, self.numbers = self._content[:_PLACE], self._content[_PLACE:]

    @staticmethod
    def content(numbers: Tensor, place: Place) -> Tensor:
        """(3 + B,) int64 on the host."""
        return torch.cat([place.tensor(), numbers])

    def set(self, content: Tensor) -> None:
        """Another batch, from the host or the device; nothing is copied where it is the one that was set last.

        Args:
            content: from :meth:`content`, not written to afterwards.
        """
        if content is self._given:
            return
        self._given = content
        if self._content.is_cuda and not content.is_cuda:
            content = content.pin_memory()  # a copy from other memory may wait for the replay before
        self._content.copy_(content, non_blocking=True)

    @contextmanager
    def disturbed(self, beyond: Place) -> Iterator[None]:
        """Inside, it is another batch of the same graphs, whose numbers are lost."""
        original = self._content.clone()
        self.place.copy_(beyond.tensor())
        self.numbers.copy_(self.numbers.roll(1))
        try:
            yield
        finally:
            self._content.copy_(original)


class Snapshot:
    """State that work changes: parameters, buffers, moments, random numbers, gradients that it adds to, scales.

    Args:
        model: model of the work.
        optimizer: optimizer of the work, if it moves parameters.
        adds_gradients: whether the work adds to gradients that are there before it; else it begins without any.
        precision: precision of the work, whose scale of float16 losses it changes.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | None = None,
        adds_gradients: bool = False,
        precision: Precision | None = None,
    ) -> None:
        self.model = model
        self._precision = precision
        self._scale = {} if precision is None else precision.state_dict()
        self._optimizer = optimizer
        self._gradients = [
            (parameter.grad, parameter.grad.clone())
            for parameter in model.parameters()
            if adds_gradients and parameter.grad is not None
        ]
        self._adds_gradients = adds_gradients
        self.tensors = [tensor.detach().clone() for tensor in _tensors(model)]
        self._moments = {key: tensor.clone() for key, tensor in _moments(optimizer)}
        self._device = next((each.device for each in model.parameters()), torch.device("cpu"))
        self._random = random_state(self._device)

    @torch.no_grad()
    def restore(self) -> None:
        """Puts the values back where they were; moments that did not exist are 0, where all begin."""
        for tensor, value in zip(_tensors(self.model), self.tensors, strict=True):
            tensor.copy_(value)
        for key, tensor in _moments(self._optimizer):
            if key in self._moments:
                tensor.copy_(self._moments[key])
            else:
                tensor.zero_()
        for gradient, value in self._gradients:
            gradient.copy_(value)
        if self._precision is not None:
            self._precision.load_state_dict(self._scale)
        set_random_state(self._random, self._device)

    def forget_gradients(self) -> None:
        """Drops gradients in a graph's memory: work without it must not add to them."""
        if self._optimizer is not None and not self._adds_gradients:
            self._optimizer.zero_grad()


@dataclass(frozen=True, eq=False)
class Work:
    """Work that is recorded.

    Attributes:
        run: does it on the batch of ``batch`` and writes into ``tally``.
        batch: input of the work.
        tally: tally that its numbers go to.
        place: place of the batch.
        rows: predictions of the batch that count.
        graphs: number of graphs of the batch.
    """

    run: Callable[[], None]
    batch: BatchInput
    tally: Tally
    place: Place
    rows: int
    graphs: int = 0

    @property
    def output(self) -> StepOutput:
        """Numbers that the work left in the tally."""
        return self.tally.read(self.place, self.rows, self.graphs)


def record(
    graphs: StepGraphs,
    work: Work,
    before: Snapshot,
    while_working: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> StepGraph:
    """The graph of some work, compared with the work itself; nothing is changed by it.

    Args:
        graphs: makes graphs.
        work: done twice, and recorded.
        before: state that the work changes, as it is now.
        while_working: entered around the work, not around a replay.

    Raises:
        CaptureFailed: the work cannot be recorded, or its replay is something else.
    """
    graph = graphs.new()
    try:
        with while_working():
            graphs.warm_up(work.run)
            expected = _Result.of(work, before)
            before.restore()
            before.forget_gradients()
            with work.batch.disturbed(work.tally.beyond):
                _perturb_parameters(before.model)
                _reseed_host()
                graph.capture(work.run)
        before.restore()
        _wipe(work.output)
        graph.replay()
        difference = _Result.of(work, before).difference(expected)
    except recording_errors() as error:
        raise CaptureFailed.because_of(error) from error
    finally:
        before.restore()
        before.forget_gradients()
    if difference is not None:
        raise CaptureFailed(f"a replay is not the work itself: {difference}")
    return graph


@torch.no_grad()
def _perturb_parameters(model: nn.Module) -> None:
    """Other parameters while work is recorded: what is left over from then shows in a replay."""
    for parameter in model.parameters():
        parameter.mul_(0.5)


def _reseed_host() -> None:
    """Other random numbers of the host while work is recorded: a replay does not draw them anew."""
    torch.default_generator.manual_seed(random.getrandbits(62))
    np.random.seed(random.getrandbits(32))  # noqa: NPY002  what a user's part draws from
    random.seed(random.getrandbits(62))


def _wipe(output: StepOutput) -> None:
    for tensor in _numbers(output):
        tensor.zero_()


def _numbers(output: StepOutput) -> list[Tensor]:
    loss = [] if output.loss is None else [output.loss]
    return [*loss, output.true, output.kept, *output.statistics.values()]


@dataclass
class _Result:
    """Results of some work.

    Attributes:
        output: copies of what it left in the tally: loss, targets, predictions, statistics.
        gradients: gradients after clipping.
        buffers: running statistics and the like.
        moves: changes of the parameters.
    """

    output: list[Tensor]
    gradients: list[Tensor | None]
    buffers: list[Tensor]
    moves: list[Tensor]

    @classmethod
    def of(cls, work: Work, before: Snapshot) -> _Result:
        """Result of the work that was just done."""
        parameters = list(before.model.parameters())
        return cls(
            [tensor.clone() for tensor in _numbers(work.output)],
            [None if parameter.grad is None else parameter.grad.clone() for parameter in parameters],
            [buffer.clone() for buffer in before.model.buffers()],
            [new.detach() - old for new, old in zip(parameters, before.tensors, strict=False)],
        )

    def difference(self, expected: _Result) -> str | None:
        """First difference from the expected result; None where there is none. Waits for the device."""
        if [each is None for each in self.gradients] != [each is None for each in expected.gradients]:
            return "other parameters have gradients"
        for ours, theirs in zip(self.output, expected.output, strict=True):
            difference = _difference_of_output(ours, theirs)
            if difference is not None:
                return difference
        # The first scale of float16 losses is found by gradients that are too large: such a step moves nothing.
        gradients = _where_both_are_finite(self.gradients, expected.gradients)
        error, largest = _error_and_largest(*gradients)
        if not error <= LARGEST_DIFFERENCE * largest:
            return f"gradients differ by {error:.1e}, the largest is {largest:.1e}"
        for error, own in _errors_and_largest(*gradients).tolist():  # a part with small ones may have lost all of them
            if own > ROUNDING * largest and error > 0.5 * own:
                return f"gradients of a parameter differ by {error:.1e}, its largest is {own:.1e}"
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


def _difference_of_output(ours: Tensor, expected: Tensor) -> str | None:
    """NaN in the same places is equal: targets may be missing, statistics undefined."""
    if not expected.is_floating_point():
        changed = int((ours != expected).sum())
        # Classes whose scores differ by rounding only.
        return None if changed <= 0.01 * expected.numel() else f"{changed} of {expected.numel()} targets or classes"
    if not torch.equal(ours.isnan(), expected.isnan()):
        return "loss, predictions or statistics are not defined for the same rows"
    error, largest = _error_and_largest([ours.nan_to_num()], [expected.nan_to_num()])
    if error <= LARGEST_DIFFERENCE * max(largest, 1e-3):
        return None
    return f"loss, predictions or statistics differ by {error:.1e}, the largest is {largest:.1e}"


def _where_both_are_finite(
    ours: Sequence[Tensor | None], theirs: Sequence[Tensor | None]
) -> tuple[list[Tensor], list[Tensor]]:
    """Pairs with 0 where both are infinite or NaN; where one of them alone is, it stays."""
    pairs = [(a, b, ~(a.isfinite() | b.isfinite())) for a, b in zip(ours, theirs) if a is not None and b is not None]
    return [a.masked_fill(mask, 0.0) for a, _, mask in pairs], [b.masked_fill(mask, 0.0) for _, b, mask in pairs]


def _error_and_largest(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> tuple[float, float]:
    """Over all pairs; NaN where one is in ours alone."""
    of_each = _errors_and_largest(ours, theirs)
    error, largest = of_each.amax(0).tolist() if len(of_each) else (0.0, 0.0)
    return error, largest


def _errors_and_largest(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
    """(P, 2) float64 on the host: largest difference and largest expected number of every pair that has numbers."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.numel()]
    of_each = [torch.stack([(a - b).abs().amax().double(), b.abs().amax().double()]) for a, b in pairs]
    return torch.stack(of_each).cpu() if of_each else torch.zeros(0, 2, dtype=torch.float64)


def _tensors(model: nn.Module) -> list[Tensor]:
    """Parameters first."""
    return [*model.parameters(), *model.buffers()]


def _moments(optimizer: Optimizer | None) -> Iterator[tuple[tuple[int, str], Tensor]]:
    if optimizer is None:
        return
    for number, parameter in enumerate(each for group in optimizer.param_groups for each in group["params"]):
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                yield (number, name), value
