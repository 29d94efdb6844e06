"""CUDA graphs: all of a training on one stream of its own, and a device that works where CUDA has refused to record."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from graphbench.benchmarks.measuring import replayed
from graphbench.train.recording import CaptureFailed
from graphbench.train.step_graph import CudaStepGraphs
from tests.second_device import DEVICE, GPU


class Graph(SimpleNamespace):
    """Of a fake, which can be referred to weakly."""


class Cuda:
    """What of ``torch.cuda`` records graphs; like PyTorch's it forgets to tidy up where a recording cannot be ended.

    Attributes:
        stream: the current one.
        told: what it was asked to do.
        graphs: that were made.
    """

    def __init__(self) -> None:
        self.stream = "default"
        self.told: list[str] = []
        self.underway: set[str] = set()
        self.graphs: list[Graph] = []
        self._streams, self._pools = iter("ABCDEFG"), iter(("p", "q", "r"))

    def new_graph(self) -> Graph:
        self.graphs.append(
            Graph(
                capture_begin=lambda capture_error_mode: self.told.append(f"begin on {self.stream}"),
                capture_end=lambda: self.told.append("end"),
            )
        )
        return self.graphs[-1]

    def new_stream(self, device: torch.device) -> Graph:
        name = next(self._streams)
        return Graph(
            name=name,
            device=device,
            device_index=0,
            cuda_stream=id(self) + ord(name),
            wait_stream=lambda other: self.told.append(f"{name} waits"),
        )

    @contextmanager
    def on_stream(self, stream: SimpleNamespace) -> Iterator[None]:
        before, self.stream = self.stream, stream.name
        try:
            yield
        finally:
            self.stream = before

    @contextmanager
    def graph(self, graph: object, pool: str, stream: SimpleNamespace, capture_error_mode: str) -> Iterator[None]:
        self.told.append(f"record on {stream.name} into {pool}")
        self.stream = stream.name
        self.underway.add(pool)
        try:
            yield
        except RuntimeError:
            raise RuntimeError("operation failed due to a previous error during capture\nmore") from None
        self.underway.remove(pool)

    def end(self, device: int, pool: str) -> None:
        if pool not in self.underway:
            raise RuntimeError("not currently recording to mempool_id")
        self.underway.remove(pool)
        self.told.append(f"end {pool}")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    if GPU:
        pytest.skip("there is CUDA itself")
    cuda = Cuda()
    for name, value in {
        "Stream": cuda.new_stream,
        "stream": cuda.on_stream,
        "graph": cuda.graph,
        "CUDAGraph": cuda.new_graph,
        "graph_pool_handle": lambda: next(cuda._pools),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", cuda.end, raising=False)
    monkeypatch.setattr(
        torch._C, "_cuda_releasePool", lambda _, pool: cuda.told.append(f"release {pool}"), raising=False
    )
    return cuda


def refused() -> None:
    raise RuntimeError("operation not permitted when stream is capturing\nmore")


CPU = torch.device("cpu")


def test_trainings_record_on_streams_of_their_own(cuda: Cuda) -> None:
    """One memory pool each, for as long as a graph of theirs is alive."""
    made = []
    for graphs in (CudaStepGraphs(CPU), CudaStepGraphs(CPU)):
        for _ in range(2):
            made.append(graphs.new())
            made[-1].capture(lambda: None)
    assert cuda.told == [f"record on {where}" for where in ("A into p", "A into p", "D into q", "D into q")]
    cuda.told.clear()
    made.clear()
    graphs.new().capture(lambda: None)
    assert cuda.told == ["record on D into r"]


def test_graphs_end_together(cuda: Cuda) -> None:
    graphs = CudaStepGraphs(CPU)
    first, second = graphs.new(), graphs.new()
    ended = [weakref.ref(cuda_graph) for cuda_graph in cuda.graphs]
    cuda.graphs.clear()
    del second
    assert all(graph() is not None for graph in ended)
    del first
    assert all(graph() is None for graph in ended)


def test_what_is_left_where_cuda_refuses_is_ended(cuda: Cuda) -> None:
    """The stream is put back, allocator and generator hear of an end, and what is recorded next has its own memory."""
    graphs = CudaStepGraphs(CPU)
    graph = graphs.new()
    with pytest.raises(RuntimeError, match="due to a previous error"):
        graph.capture(refused)
    assert cuda.stream == "default"
    assert cuda.told == ["record on A into p", "end p", "release p", "begin on A", "end"]
    cuda.told.clear()
    graphs.new().capture(lambda: None)
    assert cuda.told == ["record on A into q"]


def test_an_error_that_was_not_cudas_leaves_nothing_to_end(cuda: Cuda) -> None:
    graphs = CudaStepGraphs(CPU)

    def fails() -> None:
        cuda.underway.clear()  # the recording is ended as usual
        raise ValueError("of a module")

    with pytest.raises(ValueError, match="of a module"):
        graphs.new().capture(fails)
    assert cuda.told == ["record on A into p"]


def test_the_first_error_is_told(cuda: Cuda) -> None:
    with pytest.raises(RuntimeError) as raised:
        CudaStepGraphs(CPU).new().capture(refused)
    assert str(CaptureFailed.because_of(raised.value)) == "operation not permitted when stream is capturing"


def test_an_error_with_another_reason_is_told_itself() -> None:
    error = RuntimeError("for a test\nmore")
    error.__context__ = KeyError("unknown")
    assert str(CaptureFailed.because_of(error)) == "for a test"


@pytest.mark.skipif(not GPU, reason="CUDA itself")
def test_a_refused_recording_leaves_a_device_that_works() -> None:
    """Eager steps draw random numbers and release memory behind it, and others are recorded."""
    graphs, x, before = CudaStepGraphs(DEVICE), torch.ones(8, device=DEVICE), torch.cuda.current_stream(DEVICE)
    live = graphs.new()
    live.capture(lambda: x.mul_(2.0))

    def asks() -> None:
        x.add_(torch.rand(8, device=DEVICE).sum().item())

    for _ in range(2):
        with pytest.raises(RuntimeError):
            graphs.new().capture(asks)
        assert torch.cuda.current_stream(DEVICE) == before
        assert torch.rand(8, device=DEVICE).unique().numel() == 8
        torch.cuda.empty_cache()
    draws = graphs.new()
    draws.capture(lambda: x.uniform_())
    x.fill_(1.0)
    live.replay()
    assert x.tolist() == [2.0] * 8
    drawn = []
    for _ in range(2):
        draws.replay()
        drawn.append(x.clone())
    assert not torch.equal(*drawn)


@pytest.mark.skipif(not GPU, reason="one stream")
def test_graphs_side_by_side_have_their_own_scratch_memory() -> None:
    """Products that add up parts of long rows in it: replays on two streams give what each gives alone."""

    def recorded(seed: int) -> tuple[Callable[[], None], Tensor]:
        generator = torch.Generator(DEVICE).manual_seed(seed)
        a, b = (torch.randn(64, 1 << 17, device=DEVICE, generator=generator) for _ in range(2))
        out = torch.empty(64, 64, device=DEVICE)
        return replayed(lambda: [torch.mm(a, b.T, out=out) for _ in range(20)], DEVICE), out

    sides = [recorded(seed) for seed in (0, 1)]
    alone = []
    for replay, out in sides:
        replay()
        torch.cuda.synchronize(DEVICE)
        alone.append(out.clone())
    streams = [torch.cuda.Stream(DEVICE) for _ in sides]
    torch.cuda.synchronize(DEVICE)
    for _ in range(20):
        for (replay, _out), stream in zip(sides, streams, strict=True):
            with torch.cuda.stream(stream):
                replay()
    torch.cuda.synchronize(DEVICE)
    assert all(torch.equal(out, expected) for (_, out), expected in zip(sides, alone, strict=True))
