from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data import store
from graphbench.data.datasets import ogb_papers
from graphbench.data.datasets.ogb import OGB
from graphbench.data.edge_lists import to_undirected
from graphbench.data.files.roots import Roots
from graphbench.data.large import npz
from graphbench.data.single_graph import NodeFacts
from graphbench.errors import UserError
from tests.dataset_case import TrainingCase

NODES, EDGES = 300, 2000
SPLIT = {"train": [5, 2, 9], "valid": [7], "test": [100, 299]}


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.full((NODES, 1), np.nan, dtype=np.float32)
    for part in SPLIT.values():
        labels[part, 0] = rng.integers(0, 172, len(part))
    return {
        "edge_index": rng.integers(0, NODES, (2, EDGES)),
        "node_feat": rng.standard_normal((NODES, 128)).astype(np.float32),
        "node_label": labels,
    }


def write(root: Path, content: dict[str, np.ndarray]) -> Path:
    """The layout of OGB's archive papers100M-bin."""
    folder = root / "ogb/ogbn_papers100M"
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    (folder / "split/time").mkdir(parents=True, exist_ok=True)
    graph = {name: content[name] for name in ("edge_index", "node_feat")}
    counts = {"num_nodes_list": np.array([NODES]), "num_edges_list": np.array([EDGES])}
    np.savez_compressed(folder / "raw/data.npz", **graph, **counts, node_year=np.full((NODES, 1), 2015))
    np.savez_compressed(folder / "raw/node-label.npz", node_label=content["node_label"])
    for part, nodes in SPLIT.items():
        text = "".join(f"{node}\n" for node in nodes).encode()
        (folder / f"split/time/{part}.csv.gz").write_bytes(gzip.compress(text))
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ogb_papers, "_FACTS", NodeFacts(NODES, EDGES, 128, 172))
    monkeypatch.setattr(npz, "PIECE", 700)  # several pieces per array


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("undirected", [False, True])
def test_the_mapped_graph_is_that_of_the_archive(tmp_path: Path, undirected: bool) -> None:
    content = arrays()
    write(tmp_path, content)
    loaded = OGB("ogbn-papers100M", undirected=undirected).load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    expected = torch.from_numpy(content["edge_index"])
    expected = to_undirected(expected, NODES) if undirected else expected
    assert torch.equal(batch.edge_index, expected)
    assert torch.equal(batch.x, torch.from_numpy(content["node_feat"]))
    labels = torch.from_numpy(content["node_label"])[:, 0]
    assert torch.equal(batch.y == -1, labels.isnan())
    assert torch.equal(batch.y[batch.y >= 0], labels[~labels.isnan()].long())
    (split,) = loaded.published["standard"]
    assert [part.tolist() for part in split.parts().values()] == list(SPLIT.values())
    assert loaded.card.statistics == {"graphs": 1, "nodes": NODES, "edges": EDGES}


@pytest.mark.usefixtures("small")
def test_arrays_stored_by_columns(tmp_path: Path) -> None:
    content = arrays()
    write(tmp_path, content | {"edge_index": np.asfortranarray(content["edge_index"])})
    store = OGB("ogbn-papers100M", undirected=False).load(Roots(tmp_path, (), tmp_path / "cache")).store
    assert torch.equal(store.gather([0]).edge_index, torch.from_numpy(content["edge_index"]))


@pytest.mark.usefixtures("small")
def test_converted_once_and_known_without_being_read(tmp_path: Path, no_reading) -> None:
    write(tmp_path, arrays())
    roots = Roots(tmp_path, (), tmp_path / "cache")
    first = OGB("ogbn-papers100M").load(roots).store
    no_reading(ogb_papers, "unpack")
    no_reading(store, "digest")
    again = OGB("ogbn-papers100M").load(roots).store
    assert again.fingerprint == first.fingerprint
    kept = [path.name for path in (tmp_path / "cache/OGB").glob("*/*")]
    assert sorted(kept) == ["edge_index.npy", "graph.json", "test.npy", "train.npy", "val.npy", "x.npy", "y.npy"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("array", ["node_label", "node_feat", "edge_index", "reverse"])
def test_a_conversion_goes_on_where_it_was_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, array: str
) -> None:
    content, steps, unpack, undirected = arrays(), [], ogb_papers.unpack, ogb_papers.write_undirected

    def counted(path, name, *rest):
        steps.append(name)
        unpacked = unpack(path, name, *rest)
        if steps.count(name) == 1 and name == array:
            raise OSError("the disk is full")
        return unpacked

    def sorted_once(*arguments):
        steps.append("reverse")
        if steps.count("reverse") == 1 and array == "reverse":
            raise OSError("the disk is full")
        undirected(*arguments)

    monkeypatch.setattr(ogb_papers, "unpack", counted)
    monkeypatch.setattr(ogb_papers, "write_undirected", sorted_once)
    write(tmp_path, content)
    with pytest.raises(OSError, match="the disk is full"):
        OGB("ogbn-papers100M").load(Roots(tmp_path, (), tmp_path / "cache"))
    store = OGB("ogbn-papers100M").load(Roots(tmp_path, (), tmp_path / "cache")).store
    whole = ["node_label", "node_feat", "edge_index", "reverse"]
    assert steps == [*whole[: whole.index(array) + 1], *whole[whole.index(array) :]]
    assert torch.equal(store.gather([0]).x, torch.from_numpy(content["node_feat"]))
    assert torch.equal(store.edge_index.long(), to_undirected(torch.from_numpy(content["edge_index"]), NODES))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": np.full((2, EDGES), NODES)}, f"an edge names node {NODES}, but there are {NODES} nodes"),
        ({"edge_index": np.full((2, EDGES), -1)}, "an edge names node -1, but"),
        ({"edge_index": np.zeros((2, 9), dtype=np.int64)}, "these are not the published ogbn-papers100M graphs"),
        ({"node_feat": np.array([None])}, "not numbers in rows"),
    ],
)
def test_other_content(tmp_path: Path, change: dict[str, np.ndarray], message: str) -> None:
    write(tmp_path, arrays() | change)
    with pytest.raises(UserError, match=message):
        OGB("ogbn-papers100M").load(Roots(tmp_path, (), tmp_path / "cache"))
    assert not list((tmp_path / "cache/OGB").glob("*/"))  # nothing half converted stays


@pytest.mark.usefixtures("small")
def test_damaged_archive(tmp_path: Path) -> None:
    folder = write(tmp_path, arrays())
    (folder / "raw/data.npz").write_bytes((folder / "raw/data.npz").read_bytes()[:5000])
    with pytest.raises(UserError, match=r"data.npz cannot be read"):
        OGB("ogbn-papers100M").load(Roots(tmp_path, (), tmp_path / "cache"))
    np.savez(folder / "raw/data.npz", edge_index=arrays()["edge_index"])
    with pytest.raises(UserError, match="there is no array 'node_feat'"):
        OGB("ogbn-papers100M").load(Roots(tmp_path, (), tmp_path / "cache"))


def test_card() -> None:
    card = OGB("ogbn-papers100M").card
    assert (card.node_in, card.out_dim, card.metric) == (128, 172, "accuracy")
    assert card.statistics["edges"] == 1615685872


def write_training_files(root: Path) -> None:
    labels = np.full((NODES, 1), np.nan, dtype=np.float32)
    labels[:, 0] = np.arange(NODES) % 172
    write(root, arrays() | {"node_label": labels})


TRAINING_CASES = {
    "ogbn-papers100M": TrainingCase(
        "large/sgformer-papers100m.yaml", write=write_training_files, overrides={"train.batch_size": 8}
    )
}
