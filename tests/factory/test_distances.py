"""``dataset.distances batch``: the same training as with stored distances, and nothing about pairs in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench import factory
from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.experiment import run
from graphbench.preflight import describe
from tests.paths import ROOT

SBM = "configs/synthetic/ffgt-sbm-pattern-p016.yaml"
SMALL = ["optim.max_epoch", "2", "gt.layers", "1", "train.batch_size", "8"]


def _small(tmp_path: Path, *more: str) -> list[str]:
    graphs = [f"dataset.SBM.{part}_graphs" for part in ("train", "val", "test")]
    counts = [word for pair in zip(graphs, ("16", "4", "4"), strict=True) for word in pair]
    return [*SMALL, *counts, "out_dir", str(tmp_path), "dataset.dir", str(tmp_path / "data"), *more]


def test_same_training(tmp_path: Path) -> None:
    results = []
    for kind in ("stored", "batch"):
        config = load_config(ROOT / SBM, _small(tmp_path, "dataset.distances", kind, "name_tag", kind))
        loaded = factory.encode(config, factory.read_data(config))
        assert (loaded.store.pairs is None) == (kind == "batch")
        result = run(config)
        assert result is not None
        results.append({split: result[split] for split in ("val", "test")})
    assert results[0] == results[1]


def test_measuring_belongs_to_no_run() -> None:
    """It changes no number, so that a run may be resumed either way."""
    assert load_config(ROOT / SBM, []).hash == load_config(ROOT / SBM, ["dataset.distances", "batch"]).hash


def test_nothing_is_measured_where_nothing_reads_it() -> None:
    config = load_config(ROOT / "configs/quickstart-gps.yaml", ["dataset.distances", "batch"])
    assert factory.batch_transform(config) is None


def test_graphs_must_be_whole() -> None:
    path = ROOT / "configs/nodes/grpe-ffgt-cora.yaml"
    config = load_config(path, ["dataset.distances", "batch", "train.sampler", "random_node"])
    with pytest.raises(UserError, match=r"distances batch measures whole graphs, and train\.sampler random_node"):
        describe(config)


def test_stored_distances_are_not_replaced(tmp_path: Path) -> None:
    config = load_config(ROOT / SBM, _small(tmp_path, "dataset.distances", "batch"))
    stored = load_config(ROOT / SBM, _small(tmp_path))
    batch = factory.encode(stored, factory.read_data(stored)).store.gather([0])
    measure = factory.batch_transform(config)
    assert measure is not None
    with pytest.raises(ValueError, match=r"set dataset\.distances to stored"):
        measure(batch)
