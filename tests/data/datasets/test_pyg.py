from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.data.builder import DatasetBuilder
from graphbench.data.datasets.pyg import PyG
from graphbench.data.files.roots import Roots
from graphbench.errors import UserError


@pytest.mark.parametrize(
    ("name", "card_name"),
    [
        ("Cora", "Cora"),
        ("CoauthorPhysics", "Coauthor-Physics"),
        ("AmazonPhoto", "Amazon-Photo"),
        ("TU_IMDB", "IMDB-MULTI"),
        ("TU_NCI1", "NCI1"),
    ],
)
def test_names_of_graphgym(name: str, card_name: str) -> None:
    builder = PyG(name)
    assert isinstance(builder, DatasetBuilder)
    assert builder.card.name == card_name


def test_loads_what_the_family_loads(data_root: Path, tmp_path: Path) -> None:
    loaded = PyG("CiteSeer").load(Roots(tmp_path / "own", (data_root,), tmp_path / "cache"))
    assert loaded.store.num_nodes == 3327
    assert len(loaded.published["standard"]) == 1


@pytest.mark.parametrize("name", ["QM7b", "TU_", "none"])
def test_other_names(name: str) -> None:
    with pytest.raises(UserError, match=rf"unknown PyG data set \(dataset.name\) '{name}'"):
        PyG(name)
