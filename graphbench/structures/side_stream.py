"""Further streams for parts of a captured step that do not wait for each other.

A kernel of a small batch fills a fraction of a GPU's multiprocessors, so that the two halves of a block that read the
same state run in less time side by side, and so does what reads parameters alone. What is recorded as a CUDA graph
keeps them apart: a branch of the graph per stream, joined where both are needed. Autograd runs the backward pass of an
operation on the stream of its forward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
BRANCH, WEIGHTS = 0, 1
"""Side streams: for a sublayer beside others, and for what depends on parameters and sizes, as implicit filters do."""
SIDE_STREAMS = 2
"""Number of side streams."""


class SideStream:
    """The stream on which a step is recorded, and another one beside it.

    Args:
        main: stream of everything that is not asked to run beside it.
        side: another stream of the same device.
    """

    def __init__(self, main: torch.cuda.Stream, side: torch.cuda.Stream) -> None:
        self._main = main
        self._side = side
        self._forked = False

    @contextmanager
    def fork(self, *read: Tensor | None) -> Iterator[None]:
        """Inside, work is queued on the side stream, behind what the current one has been given so far.

        Args:
            read: earlier results that the work reads: their memory is not used again before it has ended.
        """
        self._side.wait_stream(self._current)
        self._forked = True
        _used_on(self._side, read)
        with torch.cuda.stream(self._side):
            yield

    def join(self, *made: Tensor | None) -> None:
        """The current stream waits for the side stream, if that has been given work: else it belongs to no recording.

        Args:
            made: tensors made on the side stream, read on the current one from here on.
        """
        if self._forked:
            self._current.wait_stream(self._side)
            _used_on(self._current, made)

    @property
    def _current(self) -> torch.cuda.Stream:
        return torch.cuda.current_stream(self._main.device)

    def on_main(self, compute: Callable[[], T]) -> T:
        """Result of ``compute``, made on the main stream, whoever asks: later readers on all find it made."""
        asking = self._current
        if asking == self._main:
            return compute()
        self._main.wait_stream(asking)
        with torch.cuda.stream(self._main):
            made = compute()
        asking.wait_stream(self._main)
        return made


def _used_on(stream: torch.cuda.Stream, tensors: tuple[Tensor | None, ...]) -> None:
    """Keeps the memory of tensors from being used again before the stream has got here.

    Without a backward pass nothing is needed: what is freed between a fork and its join is not read on both sides, and
    memory that is told of two streams is not used again in the same recording.
    """
    if torch.is_grad_enabled():
        for each in tensors:
            if each is not None:
                each.record_stream(stream)


# No ContextVar: the backward pass of a GPU runs in a thread of autograd's, which does not see those of its caller.
_open: Sequence[SideStream] = ()


@contextmanager
def side_streams_of(main: torch.cuda.Stream, sides: Sequence[torch.cuda.Stream]) -> Iterator[None]:
    """Inside, :func:`on_side` queues work on one of these :data:`SIDE_STREAMS` beside ``main``, the current stream."""
    global _open
    before, _open = _open, [SideStream(main, side) for side in sides]
    try:
        yield
    finally:
        _open = before


def has_side_streams() -> bool:
    """Whether a step is being recorded. Outside of it a host launches one by one, and there is one stream."""
    return bool(_open)


@contextmanager
def on_side(which: int, *read: Tensor | None) -> Iterator[None]:
    """Inside, work is queued on a side stream (:meth:`SideStream.fork`) if there is one; who reads it must join first.

    Args:
        which: ``BRANCH`` or ``WEIGHTS``.
        read: earlier results that the work reads.
    """
    with _open[which].fork(*read) if _open else nullcontext():
        yield


def join_side(which: int, *made: Tensor | None) -> None:
    """The current stream waits for a side stream (:meth:`SideStream.join`), if there is one.

    Args:
        which: ``BRANCH`` or ``WEIGHTS``.
        made: tensors made there.
    """
    if _open:
        _open[which].join(*made)


def join_all() -> None:
    """The current stream waits for all others, where gradients of parameters may have been computed for nobody else."""
    for each in _open:
        each.join()


class tensor_property(cached_property[T]):
    """A ``cached_property`` of tensors, which all streams may read."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        super().__init__(functools.wraps(compute)(lambda value: read_by_all(lambda: compute(value))))


def read_by_all(compute: Callable[[], T]) -> T:
    """``compute()``, for what is made once and read on all streams, in training as well as in inference mode."""
    if torch.is_inference_mode_enabled():  # whose tensors a later backward pass could not save
        with torch.inference_mode(False):
            return read_by_all(compute)
    return _open[0].on_main(compute) if _open else compute()
