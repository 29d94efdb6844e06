"""Loaders tell models that read targets which nodes train, with every sampler; no other model is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.factory.data import build_splits, encode, read_data
from graphbench.factory.loaders import build_loaders
from graphbench.factory.training import build_fabric
from graphbench.structures.known_targets import known_targets
from tests.paths import ROOT

SAMPLERS = ["full_batch", "random_node", "neighbor"]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", ["unimp-cora", "gcn-cora"])
def test_training_nodes_are_known(name: str, sampler: str, tmp_path: Path, monkeypatch, data_root: Path) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    own = ["dataset.dir", str(tmp_path), "train.sampler", sampler, "train.train_parts", "2", "accelerator", "cpu"]
    config = load_config(ROOT / f"configs/nodes/{name}.yaml", own)
    loaded = encode(config, read_data(config))
    splits = build_splits(config, loaded, 0)
    loaders = build_loaders(config, loaded, splits, 0, build_fabric(config))
    batch, rows = next(iter(loaders.train(0)))
    known = known_targets(batch)
    if name == "gcn-cora":
        assert known is None
        return
    assert known is not None
    assert rows is not None
    assert bool(known[rows].all())
    evaluated = next(iter(next(iter(loaders.passes)).batches()))
    whole = known_targets(evaluated)
    assert whole is not None
    assert torch.equal(whole.nonzero().view(-1), splits.train.sort().values)
