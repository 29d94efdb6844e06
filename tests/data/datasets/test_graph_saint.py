from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from graphbench.data.datasets.graph_saint import Flickr, Reddit, Reddit2, Yelp
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts
from graphbench.errors import UserError
from tests.dataset_case import TrainingCase
from tests.raw_files import NODES, made, node_parts, random_adjacency, rng


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
    with pytest.raises(UserError, match=r"one of adj_full.npz, feats.npy, class_map.json, role.json cannot be read"):
        Flickr().load(Roots(tmp_path, (), tmp_path / "cache"))


def test_cards() -> None:
    assert Flickr().card.statistics == {"graphs": 1, "nodes": 89250, "edges": 899756}
    assert (Reddit2().card.node_in, Reddit2().card.out_dim) == (602, 41)


def test_yelp_has_many_labels_per_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "Yelp/raw"
    folder.mkdir(parents=True)
    sparse.save_npz(folder / "adj_full.npz", sparse.csr_matrix(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], np.float32)))
    np.save(folder / "feats.npy", np.eye(3, 300))
    labels = np.random.default_rng(0).integers(0, 2, (3, 100))
    (folder / "class_map.json").write_text(json.dumps({str(node): labels[node].tolist() for node in (2, 0, 1)}))
    (folder / "role.json").write_text(json.dumps({"tr": [2], "va": [0], "te": [1]}))
    monkeypatch.setattr(Yelp, "facts", NodeFacts(3, 2, 300, 100))
    loaded = Yelp().load(Roots(tmp_path, (), tmp_path / "cache"))
    assert loaded.store.y.tolist() == labels.tolist()
    card = loaded.card
    assert (card.task_type, card.metric, card.out_dim) == ("classification_multilabel", "f1-micro", 100)


def _write_reddit(folder: Path) -> None:
    folder.mkdir(parents=True)
    np.savez(
        folder / "reddit_data.npz",
        feature=np.eye(4, 602),
        label=np.array([3, 40, 0, 1]),
        node_types=np.array([1, 3, 2, 1]),
        node_ids=np.arange(4),
    )
    twice = sparse.coo_matrix((np.ones(5), ([1, 0, 2, 3, 1], [0, 1, 3, 2, 0])), (4, 4))
    sparse.save_npz(folder / "reddit_graph.npz", twice)


def test_reddit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_reddit(tmp_path / "Reddit/raw")
    monkeypatch.setattr(Reddit, "facts", NodeFacts(4, 4, 602, 41))
    loaded = Reddit().load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert batch.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert batch.y.tolist() == [3, 40, 0, 1]
    (split,) = loaded.published["standard"]
    assert [part.tolist() for part in split.parts().values()] == [[0, 3], [2], [1]]
    monkeypatch.setattr(Reddit, "facts", NodeFacts(4, 5, 602, 41))
    with pytest.raises(UserError, match="these are not the published Reddit graphs: edges 4 instead of 5"):
        Reddit().load(Roots(tmp_path, (), tmp_path / "cache"))


def write_training_files(title: str, features: int, classes: int, several: bool, root: Path) -> None:
    folder = made(root / f"{title}/raw")
    sparse.save_npz(folder / "adj_full.npz", sparse.csr_matrix(random_adjacency().astype(np.float32)))
    np.save(folder / "feats.npy", rng().standard_normal((NODES, features)))
    labels = rng().integers(0, 2, (NODES, classes)).tolist() if several else [node % classes for node in range(NODES)]
    (folder / "class_map.json").write_text(json.dumps({str(node): label for node, label in enumerate(labels)}))
    role = dict(zip(("tr", "va", "te"), (part.tolist() for part in node_parts()), strict=True))
    (folder / "role.json").write_text(json.dumps(role))


def write_reddit(root: Path) -> None:
    folder = made(root / "Reddit/raw")
    kind = np.empty(NODES, dtype=np.int64)
    for number, part in enumerate(node_parts(), start=1):
        kind[part] = number
    x, y = rng().standard_normal((NODES, 602)), np.arange(NODES) % 41
    np.savez(folder / "reddit_data.npz", feature=x, label=y, node_types=kind)
    sparse.save_npz(folder / "reddit_graph.npz", sparse.coo_matrix(random_adjacency()))


TWO_PARTS = {"train.train_parts": 2}
TRAINING_CASES = {
    "Flickr": TrainingCase("large/sgformer-flickr.yaml", write=partial(write_training_files, "Flickr", 500, 7, False)),
    "Yelp": TrainingCase(
        "large/sgformer-yelp.yaml", write=partial(write_training_files, "Yelp", 300, 100, True), overrides=TWO_PARTS
    ),
    "Reddit": TrainingCase("large/sgformer-reddit.yaml", write=write_reddit, overrides=TWO_PARTS),
}
