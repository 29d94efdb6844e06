"""Which stored run the architecture comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.pretrained import adopt_pretrained
from graphbench.preflight import describe
from tests.factory.test_peer_semantics import ZINC


def test_a_run_over_splits_takes_the_run_of_its_first_split(tmp_path: Path) -> None:
    folds = ZINC
    for of_zinc, of_folds in (
        ("PyG-ZINC, name: subset", "PyG-GNNBenchmarkDataset, name: CSL, split_mode: cv-kfold-5"),
        ("task_type: regression", "task_type: classification"),
        ("loss_fun: l1", "loss_fun: cross_entropy"),
        ("edge_encoder: true", "edge_encoder: false"),
        ("GINE", "GIN"),
    ):
        folds = folds.replace(of_zinc, of_folds)
    for split, layers in ((3, 2), (4, 5)):
        (tmp_path / f"stored/{split}/ckpt").mkdir(parents=True)
        (tmp_path / f"stored/{split}/ckpt/best.ckpt").touch()
        (tmp_path / f"stored/{split}/config.yaml").write_text(folds.replace("layers: 1", f"layers: {layers}"))
    path = tmp_path / "x.yaml"
    path.write_text(folds.replace("layers: 1, ", ""))
    overrides = ["pretrained.dir", str(tmp_path / "stored"), "run_multiple_splits", "[3, 4]"]
    assert len(describe(load_config(path, overrides)).layers) == 2


def test_an_architecture_need_not_be_adopted(tmp_path: Path) -> None:
    (tmp_path / "stored/ckpt").mkdir(parents=True)
    (tmp_path / "stored/ckpt/best.ckpt").touch()
    (tmp_path / "stored/config.yaml").write_text(ZINC.replace("layers: 1", "layers: 2"))
    path = tmp_path / "x.yaml"
    path.write_text(ZINC.replace("layers: 1, ", ""))
    overrides = ["pretrained.dir", str(tmp_path / "stored")]
    own = load_config(path, [*overrides, "pretrained.adopt_architecture", "false"])
    assert adopt_pretrained(own, 0) is own
    assert len(describe(load_config(path, overrides)).layers) == 2
    assert len(describe(own).layers) == own.tree.gt.layers == 3


def test_a_run_that_is_not_there_yet(tmp_path: Path) -> None:
    """Its parameters are needed when a run starts, its architecture before."""
    path = tmp_path / "x.yaml"
    path.write_text(ZINC)
    overrides = ["pretrained.dir", str(tmp_path / "dfi")]
    own = load_config(path, [*overrides, "pretrained.adopt_architecture", "false"])
    assert len(describe(own).layers) == 1
    missing = r"dfi is no run directory, and it holds no run\. Train one first: graphbench train NAME\.yaml"
    with pytest.raises(UserError, match=missing):
        adopt_pretrained(own, 0)
    with pytest.raises(UserError, match=missing):
        describe(load_config(path, overrides))


def test_an_encoding_that_is_off_is_blamed_on_the_key_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(ZINC)
    config = load_config(path, ["dataset.edge_encoder_name", "TypeDictEdge+RWSEEdge", "posenc_RWSEEdge.dim_pe", "4"])
    with pytest.raises(UserError, match=r"edge_encoder_name uses RWSEEdge, but posenc_RWSEEdge\.enable is false"):
        build_model(config, declared_info(config))
