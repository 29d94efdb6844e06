"""Trainings of one process in turns: each gives way after a step, and goes on where it was.

On a GPU every training has a stream of its own, so that the kernels of one run beside those of the others: a step of
small graphs fills a fraction of the multiprocessors. What the process has once is exchanged between two turns: the
random generators, and what :mod:`contextvars` holds (which log file is written).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias, TypeVar

import torch

from graphbench.errors import Interrupted, RunFailed
from graphbench.exit_codes import told_to_user
from graphbench.train.random_state import OwnGenerators

T = TypeVar("T")

Turns: TypeAlias = Generator[None, None, T]
"""Work that yields after every step; what it returns is its result."""


def without_pause(work: Turns[T]) -> T:
    """The result of work that is done in one go."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            result: T = ended.value
            return result


def take_turns(
    trainings: Mapping[str, Turns[None]], device: torch.device, tell: Callable[[str, Exception], None]
) -> None:
    """Does all trainings to their ends, one turn of each at a time. One that fails leaves the others alone.

    Args:
        trainings: trainings by the name that messages call them.
        device: device of all of them.
        tell: called with name and exception of a training when it fails.

    Raises:
        Interrupted: some were asked to stop.
        RunFailed: some failed. One that failed by an error of the input or a defect raises that, after all have ended.
    """
    going = [_Training(name, work, device) for name, work in trainings.items()]
    failures: dict[str, Exception] = {}
    before = OwnGenerators(device)
    try:
        while going:
            for training in list(going):
                try:
                    ended = training.turn()
                except Exception as error:  # noqa: BLE001  raised below, once the others have ended
                    failures[training.name], ended = _kept(error), True
                    tell(training.name, error)
                if ended:
                    going.remove(training)
    finally:
        for training in going:  # a second Ctrl-C: nothing is waited for
            training.abandon()
        before.put_back()
    if failures:
        raise _joined(failures)


class _Training:
    """A training and what it has for itself, while others have turns.

    Args:
        name: name for messages.
        work: not begun.
        device: device of its tensors.
    """

    def __init__(self, name: str, work: Turns[None], device: torch.device) -> None:
        self.name = name
        self._work = work
        self._context = contextvars.copy_context()
        self._generators = OwnGenerators(device)
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            # PyTorch has two sets of streams, by priority: recordings have the other one for themselves.
            self._stream = torch.cuda.Stream(device, priority=-1)
            self._stream.wait_stream(torch.cuda.current_stream(device))

    def turn(self) -> bool:
        """One step; True when there are no more."""
        with self._on_stream(), self._generators.in_use():
            try:
                self._context.run(next, self._work)
            except StopIteration:
                return True
        return False

    def abandon(self) -> None:
        """Ends it where it is."""
        with self._on_stream(), self._generators.in_use():
            self._context.run(self._work.close)

    def _on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)


def _kept(error: Exception) -> Exception:
    """Error without the frames in which it was raised, as a user is told: they hold the training's memory."""
    if isinstance(error, Interrupted):
        return Interrupted(str(error))
    told = told_to_user(error)
    return error if told is None else type(told)(str(told))


def _joined(failures: Mapping[str, Exception]) -> Exception:
    """One exception for all: a defect before an interruption, an interruption before a failure."""
    errors = list(failures.values())
    for error in errors:
        if told_to_user(error) is None and not isinstance(error, Interrupted):
            return error
    if len(errors) == 1:
        return errors[0]
    worst = max(errors, key=lambda error: (isinstance(error, Interrupted), isinstance(error, RunFailed)))
    lines = "\n".join(f"  {name}: {error}" for name, error in failures.items())
    return type(worst)(f"{len(errors)} trainings of those together:\n{lines}")
