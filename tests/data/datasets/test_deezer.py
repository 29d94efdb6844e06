from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.io import savemat

from graphbench.data.datasets import deezer
from graphbench.data.datasets.deezer import Deezer, read_sparse
from graphbench.data.datasets.linkx_files import read_split_dicts
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts
from graphbench.data.splits import Splits
from graphbench.errors import UserError
from graphbench.structures import SparseRows
from tests.dataset_case import PublishedCounts, TrainingCase
from tests.raw_files import NODES, made, random_adjacency, rng, write_split_dicts


def test_the_real_files_have_the_published_counts(data_root: Path) -> None:
    """Read sparse: dense they are 3.5 GB."""
    x, edge_index, y = read_sparse(data_root / "deezer_europe/deezer-europe.mat")
    card = Deezer().card
    assert (x.shape, x.nnz) == ((28281, 31241), 958475)
    assert set(np.unique(x.data)) == {1.0}
    assert edge_index.shape == (2, int(card.statistics["edges"])) == (2, 2 * 92752)
    assert np.bincount(y).tolist() == [15743, 12538]
    splits = read_split_dicts(data_root / "deezer_europe/deezer-europe-splits.npy")
    assert [[len(part) for part in split] for split in splits] == [[14140, 7070, 7071]] * 5
    for split in splits:
        Splits.of(*split).check(28281)
    assert (card.node_in, card.out_dim, card.metric) == (31241, 1, "auc")


def test_files_of_the_same_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deezer_europe"
    folder.mkdir()
    adjacency = sparse.csc_matrix(np.array([[0, 1], [1, 0]], dtype=np.float64))
    features = sparse.csc_matrix(np.array([[0, 1, 1], [0, 0, 0]], dtype=np.float64))
    savemat(folder / "deezer-europe.mat", {"A": adjacency, "features": features, "label": np.array([[1, 0]])})
    part = {"train": np.array([0]), "valid": np.array([1]), "test": np.array([], dtype=np.int64)}
    np.save(folder / "deezer-europe-splits.npy", np.array([part, part], dtype=object), allow_pickle=True)
    monkeypatch.setattr(deezer, "NodeFacts", lambda *_: NodeFacts(2, 2, 3, 2))
    loaded = Deezer(normalize_features=True).load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert batch.x.dtype == torch.float32
    assert isinstance(batch.x, SparseRows)
    assert batch.x.dense().tolist() == [[0, 0.5, 0.5], [0, 0, 0]]
    assert batch.y.tolist() == [1, 0]
    assert [split.train.tolist() for split in loaded.published["standard"]] == [[0], [0]]
    savemat(folder / "deezer-europe.mat", {"A": adjacency})
    with pytest.raises(UserError, match="does not hold the arrays A, features and label"):
        Deezer().load(Roots(tmp_path, (), tmp_path / "cache"))


def test_the_real_features_are_never_dense(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(rows: SparseRows) -> torch.Tensor:
        raise AssertionError(f"{tuple(rows.shape)} made dense")

    monkeypatch.setattr(SparseRows, "dense", refused)
    store = Deezer(normalize_features=True).load(Roots(tmp_path, (data_root,), tmp_path / "cache")).store
    assert store.x.shape == (28281, 31241)
    assert store.nbytes < 25e6  # dense: 3.5e9
    assert store.gather([0]).x is store.x  # so that what is derived from it is derived once


def write_training_files(root: Path) -> None:
    """The real features are 3.5 GB when dense; these are as wide."""
    folder = made(root / "deezer_europe")
    x = sparse.random(NODES, 31241, density=0.001, format="csc", rng=rng())
    arrays = {"A": sparse.csc_matrix(random_adjacency().astype(np.float64)), "label": np.arange(NODES)[None] % 2}
    savemat(folder / "deezer-europe.mat", arrays | {"features": x})
    write_split_dicts(folder / "deezer-europe-splits.npy")


TRAINING_CASES = {"Deezer": TrainingCase("nodes/sgformer-deezer.yaml", write=write_training_files)}
PUBLISHED_COUNTS = {
    "Deezer/deezer-europe": PublishedCounts(1, 28281, 2 * 92752, 31241, 2, (14140, 7070, 7071), 5, slow=True)
}
