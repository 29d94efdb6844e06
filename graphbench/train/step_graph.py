"""Recorded device work: what the captured training step needs of CUDA graphs, as an interface."""

from __future__ import annotations

import functools
import importlib.util
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphbench.structures.side_stream import SIDE_STREAMS, side_streams_of
from graphbench.train.own_streams import own_streams


@functools.cache
def recording_errors() -> tuple[type[Exception], ...]:
    """Errors of warming up, recording or replaying where work cannot be captured.

    PyTorch and CUDA raise ``RuntimeError``. Triton has a base class of its own, for kernels that do not compile or
    that need more shared memory than the device has.
    """
    if importlib.util.find_spec("triton") is None:
        return (RuntimeError,)
    from triton.errors import TritonError

    return (RuntimeError, TritonError)


class StepGraph(ABC):
    """Work on a device that is recorded once and replayed on the memory it was recorded with."""

    @abstractmethod
    def capture(self, work: Callable[[], None]) -> None:
        """Records ``work``, without doing it. What it reads must not be freed before the graph is.

        Raises:
            RuntimeError: the work asks the device for a value, or does something else that cannot be recorded.
        """

    @abstractmethod
    def replay(self) -> None:
        """Does the recorded work again: same kernels, same addresses, new random numbers."""


class StepGraphs(ABC):
    """Makes graphs that share one memory pool, because only one of them runs at a time."""

    @abstractmethod
    def new(self) -> StepGraph:
        """An empty graph."""

    @abstractmethod
    def warm_up(self, work: Callable[[], None]) -> None:
        """Does ``work`` once before it is captured: kernels are compiled, libraries allocate their workspaces."""


class _Together:
    """State shared by graphs that are recorded on one stream: the memory pool of the next one, and when they end."""

    def __init__(self) -> None:
        self.pool: Any = torch.cuda.graph_pool_handle()
        self.graphs: list[torch.cuda.CUDAGraph] = []

    def new(self) -> torch.cuda.CUDAGraph:
        """An empty graph, which lives as long as the others."""
        self.graphs.append(torch.cuda.CUDAGraph())
        return self.graphs[-1]


class CudaStepGraph(StepGraph):
    """A :class:`torch.cuda.CUDAGraph`.

    Args:
        together: with the others that are recorded on the stream.
        stream: stream that work is recorded on.
        sides: streams beside it, see :mod:`graphbench.structures.side_stream`.
    """

    def __init__(self, together: _Together, stream: torch.cuda.Stream, sides: Sequence[torch.cuda.Stream]) -> None:
        self._together = together
        self._stream = stream
        self._sides = sides
        self._pool = together.pool
        self._graph = together.new()

    def capture(self, work: Callable[[], None]) -> None:
        """Records ``work``; other threads may use the device meanwhile."""
        graph = torch.cuda.graph(self._graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local")
        try:
            # torch.cuda.graph puts the stream back only where the recording could be ended.
            with torch.cuda.stream(self._stream), graph, side_streams_of(self._stream, self._sides):
                work()
        except Exception:
            self._end_refused()
            raise

    def replay(self) -> None:
        """One launch."""
        self._graph.replay()

    def _end_refused(self) -> None:
        """Ends what PyTorch takes for under way where CUDA has refused to end it (its issue 171263).

        Else the allocator releases and records nothing any more, and nobody can draw random numbers: the generator
        hears of an end only from a recording that comes to one.
        """
        try:
            torch._C._cuda_endAllocateToPool(self._stream.device_index, self._pool)
        except RuntimeError:  # it is not under way
            return
        torch._C._cuda_releasePool(self._stream.device_index, self._pool)
        self._together.pool = torch.cuda.graph_pool_handle()  # one that was released is not recorded to again
        ends = self._together.new()
        with torch.cuda.stream(self._stream):
            ends.capture_begin(capture_error_mode="thread_local")
            torch.zeros((), device=self._stream.device)  # PyTorch warns of a graph of nothing
            ends.capture_end()


class CudaStepGraphs(StepGraphs):
    """CUDA graphs of one device, all recorded on streams of their own; as long as one of them lives, all do.

    Products have scratch memory by stream, whose address a graph keeps: those of trainings that run side by side would
    write over each other's, were they recorded on the stream that :class:`torch.cuda.graph` has for all. Since PyTorch
    2.12 a graph that ends frees that memory (its issue 193402), however many others were recorded on the stream.

    Args:
        device: device of all work.

    Raises:
        RuntimeError: other trainings of the process have all streams of the device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream, *self._sides = own_streams(device, 1 + SIDE_STREAMS)
        self._together: weakref.ref[_Together] | None = None

    def new(self) -> StepGraph:
        """An empty graph."""
        together = None if self._together is None else self._together()
        if together is None:
            together = _Together()
            self._together = weakref.ref(together)
        return CudaStepGraph(together, self._stream, self._sides)

    def warm_up(self, work: Callable[[], None]) -> None:
        """Does ``work`` on the stream on which it will be recorded."""
        before = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(before)
        with torch.cuda.stream(self._stream), side_streams_of(self._stream, self._sides):
            work()
        before.wait_stream(self._stream)
