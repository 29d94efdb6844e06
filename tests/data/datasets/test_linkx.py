from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.io import savemat
from torch_geometric.datasets import LINKXDataset

from graphbench.data.datasets import linkx
from graphbench.data.datasets.linkx import LINKX
from graphbench.data.datasets.linkx_files import quantile_classes, read_split_dicts
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError
from graphbench.structures import as_dense
from tests.dataset_case import PublishedCounts, TrainingCase
from tests.raw_files import NODES, made, random_edges, rng, write_split_dicts


def published_as(monkeypatch: pytest.MonkeyPatch, name: str, facts: NodeFacts) -> None:
    monkeypatch.setitem(linkx._SOURCES, name, linkx._SOURCES[name]._replace(facts=facts))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SciPy, for PyG's reader
def test_as_pyg_reads_the_real_file(data_root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "LINKXDataset/reed98/raw/data.mat"
    copy.parent.mkdir(parents=True)
    shutil.copyfile(data_root / "LINKXDataset/reed98/raw/data.mat", copy)
    expected = LINKXDataset(str(tmp_path / "LINKXDataset"), "reed98")[0]
    batch = LINKX("reed98").load(Roots(tmp_path, (), tmp_path / "cache")).store.gather([0])
    assert torch.equal(as_dense(batch.x), expected.x.float())
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
        "random", SplitRequest(nodes, labels=loaded.store.y, sizes=[0.5, 0.25, 0.25]), allowed=loaded.card.split_modes
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
    published_as(monkeypatch, "penn94", NodeFacts(3, 4, 4, 2))
    loaded = LINKX("Penn94").load(Roots(tmp_path, (), tmp_path / "cache"))
    assert as_dense(loaded.store.x).tolist() == [[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    assert loaded.store.y.tolist() == [-1, 0, 1]
    assert len(loaded.published["standard"]) == 5
    assert loaded.published["standard"][4].val.tolist() == [2]
    assert "standard" not in LINKX("reed98").card.split_modes


def test_genius(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "LINKXDataset/genius/raw/data.mat"
    path.parent.mkdir(parents=True)
    arrays = {"edge_index": np.array([[0, 0], [1, 2]]), "node_feat": np.eye(3, 12), "label": np.array([0, 1, 1])}
    savemat(path, arrays)
    published_as(monkeypatch, "genius", NodeFacts(3, 2, 12, 2))
    loaded = LINKX("genius").load(Roots(tmp_path, (), tmp_path / "cache"))
    assert (loaded.card.metric, loaded.store.y.tolist()) == ("auc", [0, 1, 1])
    assert loaded.store.gather([0]).edge_index.tolist() == [[0, 0], [1, 2]]
    undirected = LINKX("genius", undirected=True).load(Roots(tmp_path, (), tmp_path / "cache"))
    assert undirected.store.num_edges == 4
    savemat(path, {"edge_index": arrays["edge_index"]})
    with pytest.raises(UserError, match="there is no array 'node_feat'"):
        LINKX("genius").load(Roots(tmp_path, (), tmp_path / "cache"))


SPLIT = {"train": np.array([0]), "valid": np.array([1]), "test": np.array([2])}


def _raw(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / f"LINKXDataset/{name}/raw"
    folder.mkdir(parents=True)
    np.save(folder / f"{name}-splits.npy", np.array([SPLIT] * 5, dtype=object), allow_pickle=True)
    return folder


def test_pokec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {"edge_index": np.array([[0, 0], [1, 2]]), "node_feat": np.eye(3, 65), "label": np.array([0, -1, 1])}
    savemat(_raw(tmp_path, "pokec") / "data.mat", arrays | {"num_nodes": 3})
    published_as(monkeypatch, "pokec", NodeFacts(3, 2, 65, 2))
    loaded = LINKX("pokec", undirected=True).load(Roots(tmp_path, (), tmp_path / "cache"))
    assert loaded.store.y.tolist() == [0, -1, 1]
    assert loaded.store.gather([0]).edge_index.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert len(loaded.published["standard"]) == 5
    assert loaded.card.metric == "accuracy"
    arrays["edge_index"][1, 1] = 3
    savemat(tmp_path / "LINKXDataset/pokec/raw/data.mat", arrays)
    with pytest.raises(UserError, match=r"data.mat: .*3.*; delete the file and load it again"):
        LINKX("pokec").load(Roots(tmp_path, (), tmp_path / "cache"))


def test_snap_patents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = sparse.csc_matrix(np.eye(5, 269))
    arrays = {"edge_index": np.array([[0], [4]]), "node_feat": x, "years": np.array([[1990, 1970, 1980, 1985, 1995]])}
    savemat(_raw(tmp_path, "snap-patents") / "data.mat", arrays)
    published_as(monkeypatch, "snap-patents", NodeFacts(5, 1, 269, 5))
    store = LINKX("snap_patents").load(Roots(tmp_path, (), tmp_path / "cache")).store
    assert store.y.tolist() == [3, 0, 1, 2, 4]
    assert torch.equal(store.x, torch.eye(5, 269))


def test_twitch_gamer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _raw(tmp_path, "twitch-gamer")
    (folder / "twitch-gamer_edges.csv").write_text("numeric_id_1,numeric_id_2\n0,1\n2,1\n")
    header = "views,mature,life_time,created_at,updated_at,numeric_id,dead_account,language,affiliate\n"
    rows = [
        "9,1,5,2016-02-16,2018-10-12,0,0,EN,1",
        "3,0,7,2017-02-16,2018-10-12,1,0,DE,1",
        "6,1,6,2016-02-17,2018-10-11,2,1,EN,0",
    ]
    (folder / "twitch-gamer_feat.csv").write_text(header + "\n".join(rows) + "\n")
    published_as(monkeypatch, "twitch-gamer", NodeFacts(3, 2, 7, 2))
    store = LINKX("twitch-gamer").load(Roots(tmp_path, (), tmp_path / "cache")).store
    assert store.y.tolist() == [1, 0, 1]
    assert store.gather([0]).edge_index.T.tolist() == [[0, 1], [2, 1]]
    assert store.x[:, 0].tolist() == pytest.approx([1, -1, 0])  # views
    assert torch.allclose(store.x.mean(0), torch.zeros(7), atol=1e-6)
    assert torch.allclose(store.x.std(0), torch.ones(7))
    assert store.x[0, 5] == store.x[2, 5] != store.x[1, 5]  # language


def test_wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _raw(tmp_path, "wiki")
    parts = {"edges": torch.tensor([[0, 1], [2, 1]]), "features": torch.eye(3, 600), "views": torch.tensor([4, 0, 2])}
    for name, part in parts.items():
        torch.save(part, folder / f"wiki_{name}2M.pt")
    published_as(monkeypatch, "wiki", NodeFacts(3, 2, 600, 5))
    store = LINKX("wiki").load(Roots(tmp_path, (), tmp_path / "cache")).store
    assert store.gather([0]).edge_index.T.tolist() == [[0, 1], [2, 1]]
    assert store.y.tolist() == [4, 0, 2]


def test_arxiv_year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ogb/ogbn_arxiv/raw"
    folder.mkdir(parents=True)
    tables = {"edge": "0,1\n1,2\n", "node-feat": (",".join(["0.5"] * 128) + "\n") * 5, "num-node-list": "5\n"}
    for name, text in (tables | {"node_year": "2013\n2020\n2017\n2018\n2015\n"}).items():
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    published_as(monkeypatch, "arxiv-year", NodeFacts(5, 2, 128, 5))
    store = LINKX("arxiv-year").load(Roots(tmp_path, (), tmp_path / "cache")).store
    assert store.y.tolist() == [0, 4, 2, 3, 1]


def test_fifths_of_repeated_years() -> None:
    years = np.array([2000, 2000, 2000, 2001, np.nan, 2002])
    assert quantile_classes(years, 5).tolist() == [2, 2, 2, 3, -1, 4]  # the first two bounds are 2000


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
    path = tmp_path / "LINKXDataset/reed98/raw/data.mat"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"MATLAB?")
    with pytest.raises(UserError, match=r"data.mat cannot be read"):
        LINKX("reed98").load(Roots(tmp_path, (), tmp_path / "cache"))


def write_training_files(root: Path) -> None:
    folder = made(root / "LINKXDataset/pokec/raw")
    arrays = {"edge_index": random_edges(), "node_feat": rng().standard_normal((NODES, 65))}
    savemat(folder / "data.mat", arrays | {"label": np.arange(NODES) % 2, "num_nodes": NODES})
    write_split_dicts(folder / "pokec-splits.npy")


TWO_PARTS = {"train.train_parts": 2}
TRAINING_CASES = {
    "LINKX": TrainingCase("large/sgformer-pokec.yaml", write=write_training_files, overrides=TWO_PARTS),
    "LINKX, some nodes without a label": TrainingCase(
        "large/sgformer-pokec.yaml", real="LINKXDataset/reed98", overrides=TWO_PARTS | {"dataset.name": "reed98"}
    ),
}
PUBLISHED_COUNTS = {
    "PyG-LINKXDataset/reed98": PublishedCounts(1, 962, 2 * 18812, 745, 2),
    "PyG-LINKXDataset/amherst41": PublishedCounts(1, 2235, 2 * 90954, 1193, 2),
    "PyG-LINKXDataset/johnshopkins55": PublishedCounts(1, 5180, 2 * 186586, 2406, 2),
    "PyG-LINKXDataset/cornell5": PublishedCounts(1, 18660, 2 * 790777, 4735, 2, slow=True),
    "PyG-LINKXDataset/penn94": PublishedCounts(1, 41554, 2 * 1362229, 4814, 2, splits=5),
}
