"""What a pass collects: losses, what is kept of predictions, and statistics of modules; across processes too."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from graphbench.train import prediction_buffer as module
from graphbench.train.prediction_buffer import PredictionBuffer
from tests.train.tiny_run import CLASSES, tiny_task


def _filled(offset: float) -> PredictionBuffer:
    buffer = PredictionBuffer()
    for size in (2, 3):
        pred = torch.full((size, CLASSES), offset)
        buffer.add(torch.tensor(offset), pred, torch.zeros(size).long(), {"mrr": torch.full((1,), offset)})
    return buffer


def test_rows_and_statistics_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gather_objects", lambda state, fabric: [state, _filled(2.0).state_dict()])
    whole = _filled(1.0).gathered(SimpleNamespace(world_size=2))
    assert whole.rows == 10
    assert torch.cat(whole.preds)[:, 0].tolist() == [1.0] * 5 + [2.0] * 5
    assert torch.cat(whole.statistics["mrr"]).tolist() == [1.0, 1.0, 2.0, 2.0]


def test_a_state_comes_back() -> None:
    buffer = _filled(1.5)
    again = PredictionBuffer.from_state_dict(buffer.state_dict(), torch.device("cpu"))
    assert again.counts == buffer.counts
    assert torch.equal(torch.stack(again.losses), torch.stack(buffer.losses))
    assert torch.equal(torch.cat(again.statistics["mrr"]), torch.cat(buffer.statistics["mrr"]))
    assert again.compute(tiny_task(), ["accuracy"]) == buffer.compute(tiny_task(), ["accuracy"])


def test_losses_that_come_after_others_were_sent_are_looked_at_too() -> None:
    buffer = _filled(1.0)
    buffer.send_losses()
    for loss in (2.0, torch.inf):
        buffer.add(torch.tensor(loss), torch.zeros(2, CLASSES), torch.zeros(2).long())
    assert buffer.first_non_finite() == 3
    assert buffer.first_non_finite() is None, "every loss is reported once"
    assert PredictionBuffer().first_non_finite() is None
