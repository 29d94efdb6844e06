"""What a pass collects: losses, what is kept of predictions, and statistics of modules; across processes too."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from graphbench.contract import HasStatistics
from graphbench.structures import GraphBatch
from graphbench.train import prediction_buffer as module
from graphbench.train.accelerator import make_fabric
from graphbench.train.evaluation import evaluate
from graphbench.train.forward import BatchAdapter, Predictor
from graphbench.train.prediction_buffer import PredictionBuffer
from tests.train.tiny_run import CLASSES, TinyModel, tiny_loaders, tiny_settings, tiny_task, tiny_trainer


def _filled(offset: float) -> PredictionBuffer:
    buffer = PredictionBuffer()
    for size in (2, 3):
        pred = torch.full((size, CLASSES), offset)
        buffer.add(torch.tensor(offset), pred, torch.zeros(size).long(), {"mrr": torch.full((1,), offset)})
    return buffer


def test_rows_and_statistics_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gather_objects", lambda own, fabric: [own, _filled(2.0).state_dict()])
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


class Ranking(nn.Module):
    """Predicts class 0 and ranks every graph with its number of nodes; two layers say how large and how odd it is."""

    def __init__(self, level: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Describing(1.0), Describing(3.0)])
        self.head, self.level = RankingHead(), level

    def forward(self, batch: GraphBatch) -> Tensor:
        h = torch.zeros(batch.num_graphs if self.level == "graph" else batch.num_nodes, CLASSES)
        for layer in self.layers:
            h = layer(h, None, batch)
        return self.head(h, batch)


class Describing(nn.Module, HasStatistics):
    asked = 0

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return h

    def statistics(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> dict[str, Tensor]:
        self.asked += 1
        assert not torch.is_grad_enabled()
        size = batch.ragged.size_tensor.float()
        found = {"scaled_size": self.factor * size}
        return found | ({"odd": torch.where(size % 2 == 1, 1.0, torch.nan)} if self.factor == 1.0 else {})


class RankingHead(nn.Module, HasStatistics):
    asked = 0

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        return h

    def statistics(self, h: Tensor, batch: GraphBatch) -> dict[str, Tensor]:
        self.asked += 1
        return {"mrr": batch.ragged.size_tensor.float()}


@pytest.mark.parametrize("level", ["graph", "node"])
def test_statistics_of_heads_are_for_whole_graphs_those_of_layers_for_every_split(level: str) -> None:
    fabric, model = make_fabric("cpu"), Ranking(level)
    predict = Predictor(fabric, BatchAdapter(model, "32-true").eval())
    found = evaluate(predict, tiny_task(), tiny_loaders(level).passes, fabric)
    assert set(found) == {"val", "test"}
    buffer = found["val"].buffer
    if level == "node":  # the graphs belong to all splits, and are looked at once
        assert model.head.asked == 0
        assert model.layers[0].asked == 1
        assert buffer.statistics.keys() == found["test"].buffer.statistics.keys() == {"scaled_size", "odd"}
        (batch,) = tiny_loaders(level).passes[0].batches()
        sizes = [float(n) for n in batch.ragged.sizes]
    else:
        sizes = [float(n) for each in tiny_loaders(level).passes[1].batches() for n in each.ragged.sizes]
        assert torch.cat(buffer.statistics["mrr"]).tolist() == sizes
    assert torch.cat(buffer.statistics["scaled_size"]).tolist() == [2 * size for size in sizes]
    values = buffer.compute(tiny_task(), [])
    assert values["scaled_size"] == pytest.approx(2 * sum(sizes) / len(sizes))
    assert values["odd"] == 1.0, "graphs without a number do not count"


def test_what_layers_say_is_written_for_every_evaluated_epoch_and_kept_by_the_record(tmp_path: Path) -> None:
    class Told(TinyModel):
        def __init__(self) -> None:
            super().__init__()
            self.describing = Describing(1.0)

        def forward(self, batch: GraphBatch) -> Tensor:
            self.describing(batch.x, None, batch)
            return super().forward(batch)

    said, plain = (torch.manual_seed(1) and kind() for kind in (Told, TinyModel))
    # All metrics in the first and last epoch and in a new best one only.
    settings = tiny_settings(max_epoch=5, eval_period=2, metrics_period=100)
    outcomes = [
        tiny_trainer(tmp_path / name, settings, model=model).run() for name, model in (("told", said), ("plain", plain))
    ]
    lines = {
        (name, split): [
            json.loads(line) for line in (tmp_path / name / "tiny/0" / split / "stats.json").read_text().splitlines()
        ]
        for name in ("told", "plain")
        for split in ("train", "val", "test")
    }
    for split in ("val", "test"):
        batches = next(each for each in tiny_loaders().passes if split in each.rows).batches()
        sizes = [n for batch in batches for n in batch.ragged.sizes]
        assert len(lines["told", split]) == len(lines["plain", split]) == 4
        for line, without in zip(lines["told", split], lines["plain", split], strict=True):
            assert line["scaled_size"] == pytest.approx(sum(sizes) / len(sizes))
            assert line["loss"] == without["loss"], "looking changes nothing"
            assert line.keys() - without.keys() == {"scaled_size", "odd"}
    assert all("scaled_size" not in line for line in lines["told", "train"]), "training passes are not observed"
    found = {(each.split, each.name): each for each in outcomes[0].scores}
    assert found["test", "scaled_size"].value == lines["told", "test"][0]["scaled_size"]
    assert found["test", "scaled_size"].maximize is False
    assert ("train", "scaled_size") not in found
    assert said.describing.asked == 4 * sum(len(list(each.batches())) for each in tiny_loaders().passes[1:])
