"""Blocks shared by two and four processes on one CPU (gloo): every process has the predictions of one alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from graphbench.blockwise import exchange, forward
from graphbench.blockwise.exchange import own
from tests.blockwise.shared_process import of_processes, predictions

gloo = pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without torch.distributed")


@pytest.mark.parametrize("count", [0, 1, 3, 10])
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_every_block_has_one_process(count: int, world_size: int) -> None:
    graphs = [SimpleNamespace(rank=rank, world_size=world_size) for rank in range(world_size)]
    assert [number for graph in graphs for number in own(graph, count)] == list(range(count))


@gloo
@pytest.mark.slow
def test_processes_have_the_predictions_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (forward, exchange):
        monkeypatch.setattr(module, "CELLS", module.CELLS)  # which the processes change, as predictions() does here
    alone = predictions()
    for found in of_processes(3, tmp_path):
        assert found.keys() == alone.keys()
        for name, expected in alone.items():
            scale = float(expected.abs().max())
            torch.testing.assert_close(found[name], expected, rtol=0, atol=1e-10 * scale, msg=name)
