"""What a pass collects: losses, what is kept of predictions, and statistics of heads; across processes too."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from graphbench.structures import GraphBatch
from graphbench.train import tally as module
from graphbench.train.accelerator import make_fabric
from graphbench.train.evaluation import evaluate
from graphbench.train.forward import CarriedModel, Predictor
from graphbench.train.tally import Tally
from tests.train.tiny_run import CLASSES, tiny_loaders, tiny_task


def _tally(offset: float) -> Tally:
    tally = Tally()
    for size in (2, 3):
        pred = torch.full((size, CLASSES), offset)
        tally.add(torch.tensor(offset), pred, torch.zeros(size).long(), {"mrr": torch.full((1,), offset)})
    return tally


def test_rows_and_statistics_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gather_objects", lambda own, fabric: [own, _tally(2.0).state()])
    whole = _tally(1.0).gathered(SimpleNamespace(world_size=2))
    assert whole.rows == 10
    assert torch.cat(whole.preds)[:, 0].tolist() == [1.0] * 5 + [2.0] * 5
    assert torch.cat(whole.statistics["mrr"]).tolist() == [1.0, 1.0, 2.0, 2.0]


def test_a_state_comes_back() -> None:
    tally = _tally(1.5)
    again = Tally.from_state(module.on_cpu(tally.state()), torch.device("cpu"))
    assert again.counts == tally.counts
    assert torch.equal(torch.stack(again.losses), torch.stack(tally.losses))
    assert torch.equal(torch.cat(again.statistics["mrr"]), torch.cat(tally.statistics["mrr"]))
    assert again.measure(tiny_task(), ["accuracy"]) == tally.measure(tiny_task(), ["accuracy"])


class Ranking(nn.Module):
    """Predicts class 0 and ranks every graph with its number of nodes."""

    def __init__(self, level: str) -> None:
        super().__init__()
        self.head, self.level = RankingHead(), level

    def forward(self, batch: GraphBatch) -> Tensor:
        return self.head(torch.zeros(batch.num_graphs if self.level == "graph" else batch.num_nodes, CLASSES), batch)


class RankingHead(nn.Module):
    asked = 0

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        return h

    def statistics(self, h: Tensor, batch: GraphBatch) -> dict[str, Tensor]:
        self.asked += 1
        return {"mrr": batch.ragged.size_tensor.float()}


@pytest.mark.parametrize("level", ["graph", "node"])
def test_statistics_are_kept_for_splits_of_whole_graphs(level: str) -> None:
    fabric, model = make_fabric("cpu"), Ranking(level)
    predict = Predictor(fabric, CarriedModel(model, "32-true").eval())
    found = evaluate(predict, tiny_task(), tiny_loaders(level).passes, fabric)
    assert set(found) == {"val", "test"}
    if level == "node":  # the graphs belong to all splits
        assert all(each.tally.statistics == {} for each in found.values())
        assert model.head.asked == 0
    else:
        sizes = [float(n) for each in tiny_loaders(level).passes[1].batches() for n in each.ragged.sizes]
        assert torch.cat(found["val"].tally.statistics["mrr"]).tolist() == sizes
