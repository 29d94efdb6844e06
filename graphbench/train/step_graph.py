"""Recorded device work: what the captured training step needs of CUDA graphs, as an interface."""

from __future__ import annotations

import functools
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch


@functools.cache
def recording_errors() -> tuple[type[Exception], ...]:
    """What warming up, recording or replaying ends with where work cannot be captured.

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
        """Records ``work``, without doing it.

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


class CudaStepGraph(StepGraph):
    """A :class:`torch.cuda.CUDAGraph`.

    Args:
        pool: shared memory pool.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._graph = torch.cuda.CUDAGraph()

    def capture(self, work: Callable[[], None]) -> None:
        """Records ``work``; other threads may use the device meanwhile."""
        with torch.cuda.graph(self._graph, pool=self._pool, capture_error_mode="thread_local"):
            work()

    def replay(self) -> None:
        """One launch."""
        self._graph.replay()


class CudaStepGraphs(StepGraphs):
    """CUDA graphs of one device.

    Args:
        device: of all work.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = torch.cuda.graph_pool_handle()

    def new(self) -> StepGraph:
        """An empty graph."""
        return CudaStepGraph(self._pool)

    def warm_up(self, work: Callable[[], None]) -> None:
        """Does ``work`` beside the default stream, on which capturing is not possible."""
        stream = torch.cuda.Stream(self._device)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream(self._device).wait_stream(stream)
