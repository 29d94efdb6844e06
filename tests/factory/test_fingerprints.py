"""Data that are not the published ones are used, and said to be other ones."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from graphbench import registry
from graphbench.config import load_config
from graphbench.data.infer_links import InferLinks
from graphbench.factory.data import dataset_builder, declared_fingerprint, fingerprint_key, read_data
from graphbench.heads.infer_links import InferLinksHead
from tests.paths import ROOT

MUTAG = ROOT / "configs/tu/gps-mutag.yaml"


def test_a_digit_that_was_changed_is_told(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (labels,) = data_root.rglob("MUTAG_node_labels.txt")
    folder = tmp_path / labels.parent.relative_to(data_root)
    shutil.copytree(labels.parent, folder)
    monkeypatch.delenv("GRAPHBENCH_DATA", raising=False)
    config = load_config(MUTAG, ["dataset.dir", str(tmp_path)])
    with caplog.at_level(logging.WARNING, "graphbench"):
        assert read_data(config).store.fingerprint == declared_fingerprint(config)
        assert not caplog.records
        text = (folder / labels.name).read_text()
        (folder / labels.name).write_text(text.replace("0", "1", 1))
        read_data(config)
    assert "the data of MUTAG are not those that this version knows" in caplog.text


def test_only_what_somebody_has_published_is_declared() -> None:
    assert fingerprint_key(load_config(MUTAG)) == "PyG-TUDataset/MUTAG"
    assert fingerprint_key(load_config(ROOT / "configs/quickstart.yaml")) is None, "drawn here"
    shipped = [each for each in registry.components(registry.DATASETS) if each.__module__.startswith("graphbench.")]
    without = {each.registered_name for each in shipped if not each.published_files}
    assert without == {"custom", "SBM", "ErdosRenyi", "GeneratedLike"}


def test_a_head_of_a_plug_in_may_infer_links() -> None:
    registry.register("mine", namespace="heads")(type("Mine", (InferLinksHead,), {}))
    try:
        config = load_config(MUTAG, ["gnn.head", "mine"])
        assert isinstance(dataset_builder(config), InferLinks)
        assert fingerprint_key(config) is None
    finally:
        registry.forget("heads", "mine")
