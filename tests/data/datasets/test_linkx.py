from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.io import savemat
from torch_geometric.datasets import LINKXDataset

from graphbench.data.datasets.linkx import _FACTS, LINKX, read_split_dicts
from graphbench.data.one_graph import NodeFacts
from graphbench.data.roots import Roots
from graphbench.data.splits import make_splits
from graphbench.errors import UserError


def test_as_pyg_reads_the_real_file(data_root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "LINKXDataset/reed98/raw/data.mat"
    copy.parent.mkdir(parents=True)
    shutil.copyfile(data_root / "LINKXDataset/reed98/raw/data.mat", copy)
    expected = LINKXDataset(str(tmp_path / "LINKXDataset"), "reed98")[0]
    batch = LINKX("reed98").load(Roots(tmp_path, (), tmp_path / "cache")).store.gather([0])
    assert torch.equal(batch.x, expected.x.float())
    assert torch.equal(batch.y, expected.y)
    assert torch.equal(batch.edge_index, expected.edge_index)


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features"),
    [("amherst41", 2235, 2 * 90954, 1193), ("johnshopkins55", 5180, 2 * 186586, 2406)],
)
def test_published_counts_and_a_random_split_of_the_labelled(
    name: str, nodes: int, edges: int, features: int, data_root: Path, tmp_path: Path
) -> None:
    loaded = LINKX(name).load(Roots(tmp_path / "own", (data_root,), tmp_path / "cache"))
    assert (loaded.store.num_nodes, loaded.store.num_edges) == (nodes, edges)
    assert loaded.store.x.shape[1] == features
    labelled = int((loaded.store.y >= 0).sum())
    made = make_splits(
        "random", num_examples=nodes, labels=loaded.store.y, sizes=[0.5, 0.25, 0.25], allowed=loaded.card.split_modes
    )
    assert sum(len(part) for part in made.parts().values()) == labelled < nodes
    assert all(int(loaded.store.y[part].min()) == 0 for part in made.parts().values())


def _write_penn94(folder: Path) -> None:
    folder.mkdir(parents=True)
    adjacency = sparse.csc_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=np.float64))
    info = np.array([[1, 0, 7], [2, 1, 7], [1, 2, 9]], dtype=np.uint16)
    savemat(folder / "data.mat", {"A": adjacency, "local_info": info})
    splits = [{"train": np.array([1]), "valid": np.array([2]), "test": np.array([0])}] * 5
    np.save(folder / "fb100-Penn94-splits.npy", np.array(splits, dtype=object), allow_pickle=True)


def test_penn94_and_its_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_penn94(tmp_path / "LINKXDataset/penn94/raw")
    monkeypatch.setitem(_FACTS, "penn94", NodeFacts(3, 4, 4, 2))
    loaded = LINKX("Penn94").load(Roots(tmp_path, (), tmp_path / "cache"))
    assert loaded.store.x.tolist() == [[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    assert loaded.store.y.tolist() == [-1, 0, 1]
    assert len(loaded.published["standard"]) == 5
    assert loaded.published["standard"][4].val.tolist() == [2]
    assert "standard" not in LINKX("reed98").card.split_modes


def test_genius(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "LINKXDataset/genius/raw/data.mat"
    path.parent.mkdir(parents=True)
    arrays = {"edge_index": np.array([[0, 0], [1, 2]]), "node_feat": np.eye(3, 12), "label": np.array([0, 1, 1])}
    savemat(path, arrays)
    monkeypatch.setitem(_FACTS, "genius", NodeFacts(3, 2, 12, 2))
    loaded = LINKX("genius").load(Roots(tmp_path, (), tmp_path / "cache"))
    assert (loaded.card.metric, loaded.store.y.tolist()) == ("auc", [0, 1, 1])
    assert loaded.store.gather([0]).edge_index.tolist() == [[0, 0], [1, 2]]
    undirected = LINKX("genius", undirected=True).load(Roots(tmp_path, (), tmp_path / "cache"))
    assert undirected.store.num_edges == 4
    savemat(path, {"edge_index": arrays["edge_index"]})
    with pytest.raises(UserError, match="there is no array 'node_feat'"):
        LINKX("genius").load(Roots(tmp_path, (), tmp_path / "cache"))


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("evil",)


def test_pickled_splits_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "splits.npy", np.array([_Evil()], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="mkdir"):
        read_split_dicts(tmp_path / "splits.npy")
    assert not (tmp_path / "evil").exists()
    np.save(tmp_path / "splits.npy", np.array([{"train": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="holds no list of train, valid and test"):
        read_split_dicts(tmp_path / "splits.npy")
    (tmp_path / "splits.npy").write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot be read"):
        read_split_dicts(tmp_path / "splits.npy")


def test_unknown_and_damaged(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown PyG-LINKXDataset data set .* 'wiki'"):
        LINKX("wiki")
    path = tmp_path / "LINKXDataset/reed98/raw/data.mat"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"MATLAB?")
    with pytest.raises(UserError, match=r"data.mat is damaged"):
        LINKX("reed98").load(Roots(tmp_path, (), tmp_path / "cache"))
