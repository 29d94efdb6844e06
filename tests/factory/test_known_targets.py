"""Loaders tell models that read targets which nodes train, with every sampler; no other model is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.factory.parts import build_parts
from graphbench.structures.known_targets import known_targets
from tests.paths import ROOT

SAMPLERS = ["full_batch", "random_node", "neighbor"]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", ["unimp-cora", "gcn-cora"])
def test_training_nodes_are_known(name: str, sampler: str, tmp_path: Path, monkeypatch, data_root: Path) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    own = ["dataset.dir", str(tmp_path), "train.sampler", sampler, "train.train_parts", "2", "accelerator", "cpu"]
    config = load_config(ROOT / f"configs/nodes/{name}.yaml", own)
    parts = build_parts(config)
    batch, rows = next(iter(parts.loaders.train(0)))
    known = known_targets(batch)
    if name == "gcn-cora":
        assert known is None
        return
    assert known is not None
    assert rows is not None
    assert bool(known[rows].all())
    evaluated, _ = next(iter(next(iter(parts.loaders.passes)).batches()))
    whole = known_targets(evaluated)
    assert whole is not None
    assert torch.equal(whole.nonzero().view(-1), parts.splits.train.sort().values)
