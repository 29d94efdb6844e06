from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import TUDataset as Reference

from graphbench.data.builder import LoadedDataset
from graphbench.data.datasets.tu import TUDataset
from graphbench.data.files.roots import Roots
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from tests.dataset_case import PublishedCounts, TrainingCase


def _roots(tmp_path: Path, *shared: Path) -> Roots:
    return Roots(tmp_path / "own", shared, tmp_path / "cache")


def _load(name: str, data_root: Path, tmp_path: Path, **arguments: object) -> LoadedDataset:
    return TUDataset(name, **arguments).load(_roots(tmp_path, data_root))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges", "node_in", "edge_in", "classes"),
    [
        ("MUTAG", 188, 17.93, 19.79, 7, 4, [63, 125]),
        ("NCI1", 4110, 29.87, 32.30, 37, 0, [2053, 2057]),
        ("IMDB-BINARY", 1000, 19.77, 96.53, 1, 0, [500, 500]),
    ],
)
def test_published_statistics(
    name: str, graphs: int, nodes: float, edges: float, node_in: int, edge_in: int, classes: list[int],
    data_root: Path, tmp_path: Path,
) -> None:  # fmt: skip
    loaded = _load(name, data_root, tmp_path)
    store = loaded.store
    assert store.num_graphs == graphs
    assert store.num_nodes / graphs == pytest.approx(nodes, abs=0.005)
    assert store.num_edges / graphs / 2 == pytest.approx(edges, abs=0.005)
    assert store.x.shape[1] == node_in == loaded.card.node_in
    assert (0 if store.edge_attr is None else store.edge_attr.shape[1]) == edge_in == loaded.card.edge_in
    assert torch.bincount(store.y).tolist() == classes
    assert loaded.card.out_dim == 1


@pytest.mark.parametrize("name", ["MUTAG", "IMDB-BINARY"])
def test_same_graphs_as_pyg_reads(name: str, data_root: Path, tmp_path: Path) -> None:
    shutil.copytree(data_root / "TUDataset" / name / "raw", tmp_path / "pyg" / name / "raw")
    (tmp_path / "pyg" / name).chmod(0o755)
    expected = GraphStore.from_graphs(list(Reference(str(tmp_path / "pyg"), name)))
    ours = _load(name, data_root, tmp_path).store
    for field in ("node_ptr", "edge_ptr", "edge_index", "y"):
        torch.testing.assert_close(getattr(ours, field), getattr(expected, field))
    if expected.x is not None:
        torch.testing.assert_close(ours.x, expected.x)
        torch.testing.assert_close(ours.edge_attr, expected.edge_attr)
    else:
        assert ours.x.eq(1).all()


def test_labels_as_categories(data_root: Path, tmp_path: Path) -> None:
    one_hot = _load("MUTAG", data_root, tmp_path).store
    loaded = _load("MUTAG", data_root, tmp_path, labels="category")
    assert loaded.card.vocabularies == {"node": (7,), "edge": (4,)}
    assert torch.equal(loaded.store.x[:, 0], one_hot.x.argmax(1))
    assert torch.equal(loaded.store.edge_attr[:, 0], one_hot.edge_attr.argmax(1))


def test_published_folds(data_root: Path, tmp_path: Path) -> None:
    loaded = _load("NCI1", data_root, tmp_path)
    made = [
        make_splits("folds", SplitRequest(4110, index=i, published=loaded.published), allowed=loaded.card.split_modes)
        for i in range(10)
    ]
    assert sorted(torch.cat([split.test for split in made]).tolist()) == list(range(4110))
    assert all(sum(len(part) for part in split.parts().values()) == 4110 for split in made)
    cross = make_splits(
        "cv-stratifiedkfold-10", SplitRequest(4110, labels=loaded.store.y), allowed=loaded.card.split_modes
    )
    assert len(cross.test) == 411


@pytest.mark.slow
def test_collab_from_its_compact_text(shared_roots: Roots) -> None:
    loaded = TUDataset("COLLAB").load(shared_roots)
    assert (loaded.store.num_graphs, loaded.store.num_edges) == (5000, 24_572_158)
    assert torch.bincount(loaded.store.y).tolist() == [2600, 775, 1625]


def _write_tiny(folder: Path, name: str, **parts: str) -> None:
    folder.mkdir(parents=True)
    for part, text in parts.items():
        (folder / f"{name}_{part}.txt").write_text(text)


TINY = {
    # graph 1: nodes 1-3 with edges 1-2, 2-3, a self loop and a repeated edge; graph 2: one node; graph 3: an edge
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n3, 3\n1, 2\n5, 6\n6, 5\n",
    "graph_indicator": "1\n1\n1\n2\n3\n3\n",
    "graph_labels": "-1\n1\n1\n",
    "node_labels": "2\n3\n2\n5\n2\n2\n",
    "node_attributes": "0.5, 1\n0, 1\n0, 1\n0, 1\n0, 1\n0, 2.5\n",
    "edge_labels": "1\n1\n2\n2\n1\n2\n3\n3\n",
}


def test_a_set_without_card_is_measured(tmp_path: Path) -> None:
    roots = _roots(tmp_path)
    _write_tiny(tmp_path / "own/TUDataset/TINY/raw", "TINY", **TINY)
    builder = TUDataset("TINY", node_attributes=True)
    assert builder.card is None
    loaded = builder.load(roots)
    assert (loaded.card.node_in, loaded.card.edge_in, loaded.card.out_dim) == (6, 3, 1)
    store = loaded.store
    assert store.sizes.tolist() == [3, 1, 2]
    assert store.gather([0, 2]).edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert store.edge_attr.argmax(1).tolist() == [0, 0, 1, 1, 2, 2]
    assert store.x[0].tolist() == [0.5, 1, 1, 0, 0, 0]
    assert store.y.tolist() == [0, 1, 1]
    categories = TUDataset("TINY", labels="category").load(roots)
    assert categories.card.vocabularies == {"node": (4,), "edge": (3,)}


def test_graph_attributes_make_a_regression(tmp_path: Path) -> None:
    parts = {name: text for name, text in TINY.items() if name in ("A", "graph_indicator")}
    _write_tiny(tmp_path / "own/TUDataset/TINY/raw", "TINY", graph_attributes="0.5\n1\n2\n", **parts)
    card = TUDataset("TINY").load(_roots(tmp_path)).card
    assert (card.task_type, card.metric, card.maximize, card.out_dim) == ("regression", "mae", False, 1)


def test_compact_text_and_plain_files_give_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "own/TUDataset/PACKED"
    folder.mkdir(parents=True)
    text = "3\n3 -1\n0 2 1 1\n0 2 0 2\n0 2 1 2\n1 1\n0 0\n2 1\n0 1 1\n0 1 0\n"
    (folder / "PACKED.txt.gz").write_bytes(gzip.compress(text.encode()))
    parts = {name: TINY[name] for name in ("A", "graph_indicator", "graph_labels")}
    _write_tiny(tmp_path / "own/TUDataset/TINY/raw", "TINY", **parts)
    packed, plain = (TUDataset(name).load(_roots(tmp_path)).store for name in ("PACKED", "TINY"))
    assert packed.fingerprint == plain.fingerprint


def test_raw_files_are_parsed_once_and_changes_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphbench.data.datasets import tu

    reads = []
    read = tu.read_raw
    monkeypatch.setattr(tu, "read_raw", lambda *given: reads.append(given) or read(*given))
    folder = tmp_path / "own/TUDataset/TINY/raw"
    _write_tiny(folder, "TINY", **TINY)
    for arguments in ({}, {"labels": "category"}, {"node_attributes": True}):
        TUDataset("TINY", **arguments).load(_roots(tmp_path))
    assert len(reads) == 1
    (folder / "TINY_graph_labels.txt").write_text("1\n1\n-1\n")
    assert TUDataset("TINY").load(_roots(tmp_path)).store.y.tolist() == [1, 1, 0]
    assert len(reads) == 2


def test_messages(tmp_path: Path) -> None:
    roots = _roots(tmp_path)
    folder = tmp_path / "own/TUDataset/MUTAG/raw"
    _write_tiny(folder, "MUTAG", **TINY)
    with pytest.raises(UserError, match="MUTAG/raw: these are not the published MUTAG graphs: graphs 3 instead of 188"):
        TUDataset("MUTAG").load(roots)
    (folder / "MUTAG_graph_labels.txt").unlink()
    with pytest.raises(UserError, match=r"neither MUTAG_graph_labels.txt nor MUTAG_graph_attributes.txt"):
        TUDataset("MUTAG").load(roots)
    (folder / "MUTAG_graph_indicator.txt").write_text("1\n2\n1\n2\n3\n3\n")
    with pytest.raises(UserError, match="nodes of a graph must follow one another"):
        TUDataset("MUTAG").load(roots)
    with pytest.raises(ValueError, match="received 'onehot'"):
        TUDataset("MUTAG", labels="onehot")
    with pytest.raises(ValueError, match="cannot share a column"):
        TUDataset("ENZYMES", labels="category", node_attributes=True)


@pytest.mark.parametrize("arguments", [{}, {"labels": "category"}])
def test_declared_cards(arguments: dict[str, str]) -> None:
    enzymes = TUDataset("ENZYMES", **arguments).card
    assert enzymes.out_dim == 6
    assert enzymes.node_in == (1 if arguments else 3)
    assert TUDataset("ENZYMES", node_attributes=True).card.node_in == 21
    assert TUDataset("IMDB-MULTI", **arguments).card.node_in == 1


def test_sets_of_graphgps_without_features() -> None:
    triangles, reddit = TUDataset("TRIANGLES").card, TUDataset("REDDIT-MULTI-12K").card
    assert (triangles.node_in, triangles.out_dim) == (1, 10)
    assert (reddit.node_in, reddit.out_dim) == (1, 11)
    for name, node_in, classes in (("DD", 89, 1), ("PROTEINS", 3, 1), ("NCI1", 37, 1), ("COLLAB", 1, 3)):
        card = TUDataset(name).card
        assert (card.node_in, card.out_dim, card.task, card.metric) == (node_in, classes, "graph", "accuracy")


@pytest.mark.parametrize("labels", ["one_hot", "category"])
def test_degrees_stand_for_labels_where_there_are_none(labels: str, data_root: Path, tmp_path: Path) -> None:
    loaded = _load("IMDB-BINARY", data_root, tmp_path, labels=labels, degrees=True)
    x = loaded.store.x
    degree = x.argmax(1) if labels == "one_hot" else x[:, 0]
    batch = loaded.store.gather([17])
    assert degree[slice(*loaded.store.node_ptr[17:19].tolist())].tolist() == batch.edge_index[0].bincount().tolist()
    assert loaded.card.info().node_in == x.shape[1] == (136 if labels == "one_hot" else 1)
    assert TUDataset("IMDB-MULTI", degrees=True).card is None  # its largest degree is not declared
    assert TUDataset("MUTAG", degrees=True).card.node_in == 7  # labels come first


TRAINING_CASES = {"TU": TrainingCase("tu/gps-mutag.yaml", real="TUDataset/MUTAG")}
PUBLISHED_COUNTS = {
    "PyG-TUDataset/MUTAG": PublishedCounts(188, 3371, 7442, 7, 2),
    "PyG-TUDataset/NCI1": PublishedCounts(4110, 122747, 265506, 37, 2),
    "PyG-TUDataset/IMDB-BINARY": PublishedCounts(1000, 19773, 193062, 1, 2),
    "PyG-TUDataset/COLLAB": PublishedCounts(5000, 372474, 24572158, 1, 3, slow=True),
}
