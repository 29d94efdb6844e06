from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.datasets.heterophilous import _FACTS, HeterophilousGraph
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError
from tests.dataset_case import PublishedCounts, TrainingCase


def test_tolokers_has_the_published_counts(data_root: Path, tmp_path: Path) -> None:
    loaded = HeterophilousGraph("tolokers").load(Roots(tmp_path / "own", (data_root,), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert (batch.num_nodes, batch.edge_index.shape[1], batch.x.shape[1]) == (11758, 2 * 519000, 10)
    assert (batch.x.dtype, batch.y.dtype) == (torch.float32, torch.int64)
    made = [make_splits("standard", SplitRequest(11758, index=i, published=loaded.published)) for i in range(10)]
    assert {tuple(len(part) for part in split.parts().values()) for split in made} == {(5879, 2939, 2940)}
    assert (loaded.card.metric, loaded.card.out_dim) == ("auc", 1)


def _write(path: Path, **changes: np.ndarray) -> None:
    path.parent.mkdir(parents=True)
    masks = np.array([[True, False, False], [False, False, True]])
    arrays = {
        "node_features": np.ones((3, 2), dtype=np.float64),
        "node_labels": np.array([0, 3, 1], dtype=np.int32),
        "edges": np.array([[0, 1], [2, 1]]),
        "train_masks": masks,
        "val_masks": masks[::-1],
        "test_masks": np.array([[False, True, False]] * 2),
    }
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})


def test_a_file_of_the_same_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / "HeterophilousGraphDataset/roman_empire/raw/roman_empire.npz")
    monkeypatch.setitem(_FACTS, "roman-empire", NodeFacts(3, 4, 2, 18))
    loaded = HeterophilousGraph("Roman_empire").load(Roots(tmp_path, (), tmp_path / "cache"))
    assert loaded.store.gather([0]).edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert [split.train.tolist() for split in loaded.published["standard"]] == [[0], [2]]


def test_another_graph_under_the_name_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "HeterophilousGraphDataset/questions/raw/questions.npz")
    with pytest.raises(UserError, match="not the published Questions graphs: nodes 3 instead of 48921"):
        HeterophilousGraph("questions").load(Roots(tmp_path, (), tmp_path / "cache"))


def test_missing_array_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "HeterophilousGraphDataset/questions/raw/questions.npz"
    _write(path, edges=None)
    with pytest.raises(UserError, match=r"questions.npz cannot be read \(KeyError: edges is not a file in the archive"):
        HeterophilousGraph("questions").load(Roots(tmp_path, (), tmp_path / "cache"))
    path.write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(UserError, match=r"questions.npz cannot be read"):
        HeterophilousGraph("questions").load(Roots(tmp_path, (), tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "metric", "out_dim"),
    [("roman-empire", "accuracy", 18), ("amazon-ratings", "accuracy", 5), ("minesweeper", "auc", 1)],
)
def test_two_classes_are_ranked(name: str, metric: str, out_dim: int) -> None:
    card = HeterophilousGraph(name).card
    assert (card.metric, card.out_dim) == (metric, out_dim)


TRAINING_CASES = {
    "heterophilous": TrainingCase("nodes/sgformer-tolokers.yaml", real="HeterophilousGraphDataset/tolokers")
}
PUBLISHED_COUNTS = {
    "PyG-HeterophilousGraphDataset/tolokers": PublishedCounts(1, 11758, 2 * 519000, 10, 2, (5879, 2939, 2940), 10),
    "PyG-HeterophilousGraphDataset/roman-empire": PublishedCounts(1, 22662, 2 * 32927, 300, 18, splits=10),
    "PyG-HeterophilousGraphDataset/amazon-ratings": PublishedCounts(1, 24492, 2 * 93050, 300, 5, splits=10),
    "PyG-HeterophilousGraphDataset/minesweeper": PublishedCounts(1, 10000, 2 * 39402, 7, 2, splits=10),
    "PyG-HeterophilousGraphDataset/questions": PublishedCounts(1, 48921, 2 * 153540, 301, 2, splits=10),
}
