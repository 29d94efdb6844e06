"""The loop on one large graph: parts or neighbourhoods in training, blocks in evaluation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphbench.blockwise import stored
from graphbench.data.large.generator import power_law
from graphbench.data.large.loader import NeighborLoader, PartitionLoader
from graphbench.encoders.compose import NodeEncoder
from graphbench.errors import UserError
from graphbench.heads.node import NodeHead
from graphbench.layers.attention.sgformer import SGFormer
from graphbench.layers.local.gcn import GCN
from graphbench.models.branches import LocalSettings
from graphbench.models.two_branch import TwoBranch
from tests.data.large.large_graphs import split_of
from tests.train.tiny_run import TinyModel, tiny_loop, tiny_settings, tiny_task


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


def loop(folder, store, sampler, evaluation, *, epochs=2, made=None, **options):
    options |= {"seed": 0, "evaluation": evaluation}
    splits = split_of(store)
    if sampler == "random_node":
        loaders = PartitionLoader(store, splits, parts=4, **options)
    else:
        loaders = NeighborLoader(store, splits, sizes=[4, 3], batch_size=100, **options)
    settings = tiny_settings(max_epoch=epochs)
    torch.manual_seed(0)
    return tiny_loop(folder, settings, model=made or model(), loaders=loaders, task=tiny_task())


def scores(outcome, split):
    return {score.name: score.value for score in outcome.scores if score.split == split}


@pytest.mark.parametrize("sampler", ["random_node", "neighbor"])
def test_evaluation_in_blocks_gives_the_scores_of_the_whole_graph(tmp_path, monkeypatch, store, sampler):
    monkeypatch.setattr(stored.StoredBlocks, "max_nodes", 100)
    whole = loop(tmp_path / "whole", store, sampler, "full_batch", epochs=6).run()
    blocks = loop(tmp_path / "blocks", store, sampler, "blocks", epochs=6).run()
    assert blocks.best_epoch == whole.best_epoch
    for split in ("val", "test"):
        found, expected = scores(blocks, split), scores(whole, split)
        assert found == pytest.approx(expected, rel=1e-5)
        assert found["accuracy"] > 0.6  # a third by chance
    assert scores(blocks, "train") == scores(whole, "train")
    counts = {score.split: score.count for score in blocks.scores}
    assert counts == {"train": 600, "val": 300, "test": 300}


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_evaluation_in_blocks_follows_the_precision(tmp_path, store, precision):
    made = loop(tmp_path, store, "random_node", "blocks")
    made = tiny_loop(tmp_path, tiny_settings(max_epoch=1), model=model(), loaders=made.loaders, precision=precision)
    outcome = made.run()
    assert np.isfinite(scores(outcome, "test")["loss"])


def test_a_model_without_blocks_is_refused(tmp_path, store):
    with pytest.raises(UserError, match="TinyModel cannot be evaluated block by block; gnn, GPSModel and"):
        loop(tmp_path, store, "random_node", "blocks", made=TinyModel(level="node")).run()
