"""Evaluation: statistics of modules by split, and one large graph in blocks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from graphbench.blockwise import stored
from graphbench.contract import HasStatistics, PredictionHead
from graphbench.data.large.generator import power_law
from graphbench.data.large.neighbor_loader import NeighborLoader
from graphbench.data.large.partition_loader import PartitionLoader
from graphbench.encoders.compose import NodeEncoder
from graphbench.errors import UserError
from graphbench.heads.node import NodeHead
from graphbench.layers.attention.sgformer import SGFormer
from graphbench.layers.local.gcn import GCN
from graphbench.models.branches import LocalSettings
from graphbench.models.two_branch import TwoBranch
from graphbench.structures import GraphBatch
from graphbench.train.accelerator import make_fabric
from graphbench.train.evaluation import evaluate
from graphbench.train.forward import BatchAdapter, Predictor
from tests.data.large.large_graphs import split_of
from tests.loader_options import options_of
from tests.train.tiny_run import CLASSES, TinyModel, tiny_loaders, tiny_settings, tiny_task, tiny_trainer


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
        statistics = {"scaled_size": self.factor * size}
        if self.factor == 1.0:
            statistics["odd"] = torch.where(size % 2 == 1, 1.0, torch.nan)
        return statistics


class RankingHead(nn.Module, PredictionHead, HasStatistics):
    asked = 0

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        return h

    def statistics(self, h: Tensor, batch: GraphBatch) -> dict[str, Tensor]:
        self.asked += 1
        return {"mrr": batch.ragged.size_tensor.float()}


@pytest.mark.parametrize("level", ["graph", "node"])
def test_statistics_of_heads_are_for_whole_graphs_those_of_layers_for_every_split(level: str) -> None:
    fabric, model = make_fabric("cpu"), Ranking(level)
    predict = Predictor(fabric, BatchAdapter(model).eval())
    predictions = evaluate(predict, tiny_task(), tiny_loaders(level).passes, fabric)
    assert set(predictions) == {"val", "test"}
    buffer = predictions["val"].buffer
    if level == "node":  # the graphs belong to all splits, and are looked at once
        assert model.head.asked == 0
        assert model.layers[0].asked == 1
        assert buffer.statistics.keys() == predictions["test"].buffer.statistics.keys() == {"scaled_size", "odd"}
        ((batch, _),) = tiny_loaders(level).passes[0].batches()
        sizes = [float(n) for n in batch.ragged.sizes]
    else:
        sizes = [float(n) for batch, _ in tiny_loaders(level).passes[1].batches() for n in batch.ragged.sizes]
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
        batches = next(eval_pass for eval_pass in tiny_loaders().passes if split in eval_pass.rows).batches()
        sizes = [n for batch, _ in batches for n in batch.ragged.sizes]
        assert len(lines["told", split]) == len(lines["plain", split]) == 4
        for line, without in zip(lines["told", split], lines["plain", split], strict=True):
            assert line["scaled_size"] == pytest.approx(sum(sizes) / len(sizes))
            assert line["loss"] == without["loss"], "looking changes nothing"
            assert line.keys() - without.keys() == {"scaled_size", "odd"}
    assert all("scaled_size" not in line for line in lines["told", "train"]), "training passes are not observed"
    by_name = {(score.split, score.name): score for score in outcomes[0].scores}
    assert by_name["test", "scaled_size"].value == lines["told", "test"][0]["scaled_size"]
    assert by_name["test", "scaled_size"].maximize is False
    assert ("train", "scaled_size") not in by_name
    assert said.describing.asked == 4 * sum(len(list(eval_pass.batches())) for eval_pass in tiny_loaders().passes[1:])


# ---------------------------------------------------------------------- one large graph


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return power_law(tmp_path_factory.mktemp("graph"), 1200, 9600, 0, columns=4, classes=3, noise=1.0)


def model():
    return TwoBranch(
        encoder=NodeEncoder(None, {}, 4, False),
        dim_encoded=4,
        edge_encoder=None,
        dim=8,
        layers=1,
        attention=lambda: SGFormer(8, 1),
        local=GCN,
        head=lambda width: NodeHead(width, 3),
        local_branch=LocalSettings(local_norm=True, local_stem=True),
    )


def large_trainer(folder, store, sampler, evaluation, *, epochs=2, made=None, **options):
    options["evaluation"] = evaluation
    options["blocks"] = lambda incoming: stored.StoredBlocks(store, incoming=incoming)
    splits = split_of(store)
    if sampler == "random_node":
        loaders = PartitionLoader(store, splits, options_of({"parts": 4, **options}))
    else:
        loaders = NeighborLoader(store, splits, options_of(options), sizes=[4, 3], batch_size=100)
    settings = tiny_settings(max_epoch=epochs)
    torch.manual_seed(0)
    return tiny_trainer(folder, settings, model=made or model(), loaders=loaders, task=tiny_task())


def scores(outcome, split):
    return {score.name: score.value for score in outcome.scores if score.split == split}


@pytest.mark.parametrize("sampler", ["random_node", "neighbor"])
def test_evaluation_in_blocks_gives_the_scores_of_the_whole_graph(tmp_path, monkeypatch, store, sampler):
    monkeypatch.setattr(stored, "NODES", 100)
    whole = large_trainer(tmp_path / "whole", store, sampler, "full_batch", epochs=6).run()
    blocks = large_trainer(tmp_path / "blocks", store, sampler, "blocks", epochs=6).run()
    assert blocks.best_epoch == whole.best_epoch
    for split in ("val", "test"):
        of_blocks = scores(blocks, split)
        assert of_blocks == pytest.approx(scores(whole, split), rel=1e-5)
        assert of_blocks["accuracy"] > 0.6  # a third by chance
    assert scores(blocks, "train") == scores(whole, "train")
    counts = {score.split: score.count for score in blocks.scores}
    assert counts == {"train": 600, "val": 300, "test": 300}


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_evaluation_in_blocks_follows_the_precision(tmp_path, store, precision):
    loaders = large_trainer(tmp_path, store, "random_node", "blocks").loaders
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=1), model=model(), loaders=loaders, precision=precision)
    outcome = trainer.run()
    assert np.isfinite(scores(outcome, "test")["loss"])


def test_a_model_without_blocks_is_refused(tmp_path, store):
    with pytest.raises(UserError, match="TinyModel cannot be evaluated block by block"):
        large_trainer(tmp_path, store, "random_node", "blocks", made=TinyModel(level="node")).run()
