"""Names of runs in Weights & Biases, as GraphGPS makes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from graphbench.config import load_config
from graphbench.factory.training import build_reporters
from graphbench.factory.wandb_name import wandb_name
from graphbench.structures import DataInfo
from graphbench.train.loggers import WandbLogger


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        (
            "{dataset: {format: PyG-ZINC, name: subset}, model: {type: GPSModel}, gt: {layer_type: GINE+Transformer}}",
            "ZINC-subset.GPS.GINE+Transformer.r7",
        ),
        (
            "{dataset: {format: OGB, name: ogbg-molhiv}, model: {type: gnn}, gnn: {layer_type: gcnconv}, name_tag: a}",
            "ogbg-molhiv.gnn.gcnconv.a.r7",
        ),
        (
            "{dataset: {format: PyG-GNNBenchmarkDataset, name: PATTERN}, model: {type: SANTransformer}}",
            "PATTERN.SANTransformer.r7",
        ),
        (
            "{dataset: {format: PyG-TUDataset, name: MUTAG}, model: {type: custom_gnn}, gnn: {layer_type: gineconv}}",
            "MUTAG.custom_gnn.gineconv.r7",
        ),
    ],
)
def test_names_are_those_of_graphgps(tmp_path: Path, keys: str, name: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(keys)
    assert wandb_name(load_config(file), "7") == name


def test_a_run_has_its_group_and_tags(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{name_tag: b, wandb: {use: true}, dataset: {format: PyG-Planetoid, name: Cora}}")
    info = DataInfo("Cora", "node", "classification_multi", 8, 0, 7, "accuracy", maximize=True)
    found = build_reporters(load_config(file), "mine-b 5", info, "5", nn.Identity())
    (logger,) = (each for each in found if isinstance(each, WandbLogger))
    given = {key: value for key, value in logger._arguments.items() if key in ("name", "group", "tags")}
    assert given == {"name": "Planetoid-Cora.gnn.generalconv.b.r5", "group": "mine-b", "tags": ["Cora", "gnn", "b"]}
