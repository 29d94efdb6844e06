"""Streams beside that of a captured step: nothing is read before it is written, on whichever stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from graphbench.config import load_config
from graphbench.data.loading.padded import PaddedBatches, numbers_of
from graphbench.factory.model import build_model
from graphbench.layers.contract import GlobalAttention, LocalLayer
from graphbench.layers.gps import GPSBlock
from graphbench.structures import GraphBatch, Ragged, dropout_seeds, memo, side_stream
from graphbench.structures.dropout_seeds import seeds_drawn_together
from graphbench.structures.late_sums import late_sums
from tests.launches import CONFIGURATIONS, data_like
from tests.paths import ROOT
from tests.second_device import DEVICE, GPU, UNDEFINED, observed, second_device, triton_stubbed

triton = pytest.importorskip("triton", reason="the GPU kernels need Triton (pip install 'graphbench-gt[test]')")


class Stream:
    """With what it knows to have happened on every stream (a vector clock).

    Attributes:
        device: as :class:`torch.cuda.Stream` has it.
        seen: stream -> operations of it that this one begins behind.
        done: operations.
        recorded: whether it belongs to the recording, as the main one does and who has waited for one that does.
    """

    def __init__(self, recorded: bool = False) -> None:
        self.recorded = recorded
        self.device = DEVICE
        self.seen: dict[Stream, int] = {}
        self.done = 0

    def wait_stream(self, other: Stream) -> None:
        if self.recorded and not other.recorded:
            raise RuntimeError("dependency created on uncaptured work in another stream")
        self.recorded = other.recorded
        for stream, number in {**other.seen, other: other.done}.items():
            self.seen[stream] = max(number, self.seen.get(stream, 0))

    def knows(self, stream: Stream, number: int) -> bool:
        return stream is self or self.seen.get(stream, 0) >= number


class Streams:
    """All streams, and who has written what on which of them.

    Attributes:
        main: the current one to begin with.
        sides: beside it.
        races: what was read or written while another stream may still have written it, by operation.
        on_side: operations of each of these.
    """

    def __init__(self) -> None:
        self.main = Stream(recorded=True)
        self.sides = [Stream() for _ in range(side_stream.SIDE_STREAMS)]
        self.races: list[str] = []
        self.on_side: list[list[str]] = [[] for _ in self.sides]
        self._current = self.main
        self._written: dict[int, tuple[Stream, int, str]] = {}
        self._kept: list[Tensor] = []  # so that no memory is used twice

    @contextmanager
    def on_stream(self, stream: Stream) -> Iterator[None]:
        before, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = before

    def current(self, device: torch.device) -> Stream:
        return self._current

    def note(self, name: str, tensors: list[Tensor], result: Any) -> None:
        """An operation of torch on the second device."""
        made = [each for each in tree_flatten(result)[0] if isinstance(each, Tensor)]
        if name in UNDEFINED:  # memory, which nobody has written to
            self._kept += made
            return
        self._do(name, [each.raw for each in tensors if hasattr(each, "raw")], made)

    def launch(self, kernel: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A kernel, which writes what nobody has written yet and reads everything else."""
        given = [each.raw for each in tree_flatten(args)[0] if hasattr(each, "raw")]
        new = [each for each in given if _memory(each) not in self._written]
        self._do(kernel.fn.__name__, given, new)

    def _do(self, name: str, read: list[Tensor], written: list[Tensor]) -> None:
        stream = self._current
        for each in (*read, *written):
            by, number, writer = self._written.get(_memory(each), (stream, 0, ""))
            if not stream.knows(by, number):
                self.races.append(f"{name} does not wait for {writer}")
        stream.done += 1
        if stream is not self.main:
            self.on_side[self.sides.index(stream)].append(name)
        self._kept += written
        for each in written:  # a view is written by whoever has written what it is a view of
            if not any(each.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() for other in read):
                self._written[_memory(each)] = (stream, stream.done, name)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@contextmanager
def all_streams() -> Iterator[Streams]:
    """Inside, work on the second device is recorded as if by a GPU on several streams."""
    streams = Streams()

    with (
        triton_stubbed(streams.launch),
        mock.patch.object(torch.cuda, "stream", streams.on_stream),
        mock.patch.object(torch.cuda, "current_stream", streams.current),
        mock.patch.object(side_stream, "_used_on"),
        observed(streams.note),
        side_stream.side_streams_of(streams.main, streams.sides),  # type: ignore[arg-type]
    ):
        yield streams


def passes(name: str, cache_dir: Path) -> Streams:
    """A training step's forward and backward pass on a padded batch, as they are recorded.

    What autograd does on the stream of the forward pass, it does on the main one here.
    """
    config = load_config(ROOT / "configs" / f"{name}.yaml", ["gt.layers", "2"])
    info, store = data_like(CONFIGURATIONS[name], config, cache_dir, 8)
    model, numbers = build_model(config, info), torch.arange(8).numpy()
    with second_device():
        padded = PaddedBatches(store.to(DEVICE))
        plan = padded.plan(numbers, padded.classes([numbers]))
        assert plan.capacity is not None
        model, on_device = model.to(DEVICE).train(), numbers_of(plan).to(DEVICE)
        with all_streams() as streams, seeds_drawn_together():
            total = model(padded.assemble(plan.capacity, on_device).batch).sum()
            with late_sums(total):
                total.backward()
            assert all(streams.main.knows(each, each.done) for each in streams.sides)
    return streams


@pytest.mark.skipif(GPU, reason="streams of its own")
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_nothing_is_read_too_early(name: str, tmp_path: Path) -> None:
    streams = passes(name, tmp_path)
    assert streams.on_side[side_stream.BRANCH]
    for kernel in ("sine_network_forward", "taps_gradient"):
        assert (kernel in streams.on_side[side_stream.WEIGHTS]) == ("geco" in name)
    assert not streams.races


def first_row(ragged: Ragged) -> Tensor:
    return ragged.ptr[:1] + 1


SHARED: dict[str, tuple[Any, Callable[[GraphBatch], Tensor]]] = {
    "derived": (memo, lambda batch: batch.ragged.derived(first_row)),
    "seeds": (dropout_seeds, lambda batch: dropout_seeds.dropout_seeds(batch.device)[:1]),
    "property": (side_stream, lambda batch: batch.ragged.graph_id.unsqueeze(1)),
}
"""What both branches may read: where it is made for both, and how it is asked for."""


class Reader:
    """Of one of these.

    Args:
        ask: for it.
    """

    def __init__(self, ask: Callable[[GraphBatch], Tensor]) -> None:
        super().__init__()
        self.ask = ask

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Any:
        return h * self.ask(batch)


class Along(Reader, LocalLayer):
    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        return super().forward(h + 1, e, batch), e


class Within(Reader, GlobalAttention):
    reads_edge_states = False


class Unknown(Within):
    """Whoever writes this anew promises nothing."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return super().forward(h, e, batch)


def of_block(shared: str, attention: type[GlobalAttention] = Within) -> Streams:
    ask = SHARED[shared][1]
    block = GPSBlock(4, [Along(ask), attention(ask)], norm="none")  # type: ignore[call-arg]
    batch = GraphBatch(Ragged.from_sizes([2, 3]), torch.zeros(2, 0, dtype=torch.int64))
    with second_device():
        block, batch, h = block.to(DEVICE), batch.to(DEVICE), torch.ones(5, 4).to(DEVICE)
        with all_streams() as streams, seeds_drawn_together():
            block(h * 2, None, batch)
    return streams


@pytest.mark.skipif(GPU, reason="streams of its own")
@pytest.mark.parametrize("shared", SHARED)
def test_what_both_branches_read_is_made_once_for_both(shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = of_block(shared)
    assert streams.on_side[side_stream.BRANCH]
    assert not streams.races
    monkeypatch.setattr(SHARED[shared][0], "read_by_all", lambda compute: compute())
    assert of_block(shared).races


@pytest.mark.skipif(GPU, reason="streams of its own")
def test_an_attention_that_may_read_edge_states_waits() -> None:
    assert not any(of_block("derived", Unknown).on_side)


@pytest.mark.skipif(GPU, reason="streams of its own")
def test_a_stream_that_begins_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_stream.SideStream, "fork", lambda self, *_: torch.cuda.stream(self._side))
    with pytest.raises(RuntimeError, match="uncaptured work"):
        of_block("derived")


@pytest.mark.skipif(GPU, reason="streams of its own")
def test_a_stream_that_nobody_waits_for_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_stream.SideStream, "join", lambda *_: None)
    assert of_block("derived").races
