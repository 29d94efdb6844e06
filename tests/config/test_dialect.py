"""Forks of GraphGPS, recognised by what only one of them has."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.config import load_config
from graphbench.errors import UserError

BASE = "dataset: {format: PyG-ZINC, name: subset, task: graph, task_type: regression}\n"


def load(folder: Path, text: str) -> str:
    (folder / "x.yaml").write_text(BASE + text)
    return load_config(folder / "x.yaml").tree.compat


@pytest.mark.parametrize(
    ("text", "fork"),
    [
        ("gt: {layer_type: GINE+Transformer}", "graphgps"),
        ("prep: {exp: true}", "exphormer"),
        ("gt: {dim_edge: 16}", "exphormer"),
        ("model: {type: MultiModel}", "exphormer"),
        ("gnn: {use_vn: true}", "lrgb"),
        ("gnn: {head: mlp_graph}", "lrgb"),
        ("model: {type: custom_gnn}\ngnn: {layer_type: gcnconv}", "lrgb"),
        ("gnn: {layer_type: gcnconv}", "graphgps"),
        ("compat: graphgps\ngnn: {head: mlp_graph}", "graphgps"),
    ],
)
def test_the_fork_of_a_file(tmp_path: Path, text: str, fork: str) -> None:
    assert load(tmp_path, text) == fork


def test_two_forks_in_one_file_are_refused_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.yaml:2: prep\.exp.*only exphormer.*x\.yaml:3: gnn\.use_vn.*only lrgb"):
        load(tmp_path, "prep: {exp: true}\ngnn: {use_vn: true}")
