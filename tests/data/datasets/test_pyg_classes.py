"""Classes of ``torch_geometric.datasets`` by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import graphbench
from graphbench import registry
from graphbench.data.files.roots import Roots
from graphbench.errors import UserError


def test_parameters_of_a_class_are_keys(tmp_path: Path) -> None:
    text = "_base_: configs/quickstart.yaml\ndataset: {format: PyG-FakeDataset, name: a, PyG-FakeDataset: {KEY: 3}}\n"
    file = tmp_path / "a.yaml"
    file.write_text(text.replace("KEY", "num_graphs"))
    assert graphbench.load_config(file).value("dataset.PyG-FakeDataset.num_graphs") == 3
    file.write_text(text.replace("KEY", "num_grafs"))
    with pytest.raises(UserError, match=r"a\.yaml:2: unknown argument of PyG-FakeDataset 'num_grafs'. Did you mean '"):
        graphbench.load_config(file)
    file.write_text("_base_: configs/quickstart.yaml\ndataset: {format: PyG-KarateClib, name: a}\n")
    with pytest.raises(UserError, match=r"a\.yaml:2: unknown name in dataset.format 'PyG-KarateClib'"):
        graphbench.load_config(file)


def test_generated_graphs_are_the_same_in_every_run(tmp_path: Path) -> None:
    assert registry.register_family_member("data/datasets", "PyG-FakeDataset")
    builder = registry.lookup("data/datasets", "PyG-FakeDataset")
    roots = Roots(tmp_path, (), tmp_path / "cache")
    state = torch.get_rng_state()
    stores = [builder("fake", "graph", "classification", False, num_graphs=4).load(roots).store for _ in range(2)]
    assert stores[0].fingerprint == stores[1].fingerprint
    assert torch.equal(torch.get_rng_state(), state), "the run's random numbers are not touched"
