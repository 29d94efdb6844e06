"""Streams with one holder at a time, on devices that hand the same ones out again."""

from __future__ import annotations

import itertools

import pytest
import torch

from graphbench.structures.side_stream import SIDE_STREAMS
from graphbench.train import own_streams
from graphbench.train.own_streams import STREAMS
from graphbench.train.step_graph import CudaStepGraphs

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _pool(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()

    class Stream:
        def __init__(self, device: torch.device) -> None:
            self.cuda_stream = next(numbers) % STREAMS

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(own_streams, "_held", type(own_streams._held)())


def test_trainings_side_by_side_record_on_streams_of_their_own() -> None:
    most = STREAMS // (1 + SIDE_STREAMS)
    trainings = [CudaStepGraphs(GPU) for _ in range(most)]
    streams = [each.cuda_stream for graphs in trainings for each in (graphs._stream, *graphs._sides)]
    assert len(set(streams)) == most * (1 + SIDE_STREAMS)
    with pytest.raises(RuntimeError, match="a GPU has 32 streams, and other trainings of this process have all but 2"):
        CudaStepGraphs(GPU)
    trainings[0].itself = trainings[0]  # type: ignore[attr-defined]  # a cycle, as of a trainer and its reporters
    del trainings[0]
    assert CudaStepGraphs(GPU)._stream.cuda_stream not in streams[1 + SIDE_STREAMS :]


def test_other_devices_have_streams_of_their_own() -> None:
    here, there = own_streams.own_streams(GPU, STREAMS), own_streams.own_streams(torch.device("cuda", 1), STREAMS)
    assert {each.cuda_stream for each in here} == {each.cuda_stream for each in there}
