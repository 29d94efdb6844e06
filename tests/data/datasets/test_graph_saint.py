from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from graphbench.data.datasets.graph_saint import Flickr, Reddit2
from graphbench.data.one_graph import NodeFacts
from graphbench.data.roots import Roots
from graphbench.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "Flickr/raw"
    folder.mkdir(parents=True)
    matrix = sparse.csr_matrix(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=np.float32))
    sparse.save_npz(folder / "adj_full.npz", matrix)
    np.save(folder / "feats.npy", np.eye(3, dtype=np.float64))
    (folder / "class_map.json").write_text(json.dumps({"2": 6, "0": 1, "1": 0}))
    (folder / "role.json").write_text(json.dumps({"tr": [2], "va": [0], "te": [1]}))
    monkeypatch.setattr(Flickr, "facts", NodeFacts(3, 4, 3, 7))
    return folder


def test_files_of_the_published_form(folder: Path, tmp_path: Path) -> None:
    loaded = Flickr("none").load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert batch.edge_index.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert batch.y.tolist() == [1, 0, 6]
    (split,) = loaded.published["standard"]
    assert [part.tolist() for part in split.parts().values()] == [[2], [0], [1]]


def test_damaged_file(folder: Path, tmp_path: Path) -> None:
    (folder / "role.json").write_text("{")
    with pytest.raises(UserError, match=r"one of adj_full.npz, feats.npy, class_map.json, role.json is damaged"):
        Flickr().load(Roots(tmp_path, (), tmp_path / "cache"))


def test_cards() -> None:
    assert Flickr().card.statistics == {"graphs": 1, "nodes": 89250, "edges": 899756}
    assert (Reddit2().card.node_in, Reddit2().card.out_dim) == (602, 41)
    with pytest.raises(UserError, match="unknown PyG-Reddit2"):
        Reddit2("Reddit")
