from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.io import read_npz

from graphbench.data.datasets.shchur import Amazon, CitationFull, Coauthor, drawn_split
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError
from graphbench.structures import as_dense
from tests import raw_files
from tests.dataset_case import TrainingCase

NODES = 30


def _write(path: Path, nodes: int = NODES, features: int = 7, classes: int = 8) -> None:
    path.parent.mkdir(parents=True)
    random = np.random.default_rng(0)
    adjacency = sparse.csr_matrix((random.random((nodes, nodes)) < 0.1).astype(np.float32))  # directed, with loops
    attributes = sparse.csr_matrix(random.integers(0, 3, (nodes, features)).astype(np.float32))
    arrays = {"labels": np.arange(nodes) % classes}
    for kind, matrix in (("adj", adjacency), ("attr", attributes)):
        arrays |= {f"{kind}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(path, **arrays)


@pytest.fixture
def photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "Amazon/Photo/raw/amazon_electronics_photo.npz"
    _write(path)
    edges = read_npz(str(path)).edge_index.shape[1]
    monkeypatch.setitem(Amazon.facts, "photo", NodeFacts(NODES, edges, 7, 8))
    return path


def test_as_pyg_reads_it(photo: Path, tmp_path: Path) -> None:
    expected = read_npz(str(photo))
    batch = Amazon("photo").load(Roots(tmp_path, (), tmp_path / "cache")).store.gather([0])
    assert torch.equal(as_dense(batch.x), expected.x)
    assert torch.equal(batch.y, expected.y)
    assert torch.equal(batch.edge_index, expected.edge_index)


def test_edges_of_the_exphormer_release(photo: Path, tmp_path: Path) -> None:
    expected = read_npz(str(photo)).edge_index
    loaded = Amazon("photo", add_reverse_edges=True, add_self_loops=True).load(Roots(tmp_path, (), tmp_path / "cache"))
    twice = torch.cat([expected, expected.flip(0), expected.unique().expand(2, -1)], dim=1)
    assert torch.equal(loaded.store.gather([0]).edge_index, twice)


def test_standard_is_the_split_of_the_exphormer_release(photo: Path, tmp_path: Path) -> None:
    loaded = Amazon("photo").load(Roots(tmp_path, (), tmp_path / "cache"))
    made = make_splits(
        "standard",
        SplitRequest(NODES, seed=5, sizes=[0.7, 0.2, 0.1], published=loaded.published),
        allowed=loaded.card.split_modes,
    )
    torch.manual_seed(5)  # the release draws from the global generator, first thing after seeding
    order = torch.randperm(NODES).tolist()
    held = int(NODES * (1 - 0.7) / 2)
    assert (made.val.tolist(), made.test.tolist()) == (order[:held], order[held : 2 * held])
    assert made.train.tolist() == order[2 * held :]
    with pytest.raises(UserError, match="split_index must be 0, received 1"):
        make_splits("standard", SplitRequest(NODES, index=1, published=loaded.published))


def test_share_is_60_percent_where_nothing_is_said() -> None:
    made = drawn_split(SplitRequest(100))
    assert [len(part) for part in made.parts().values()] == [60, 20, 20]
    with pytest.raises(UserError, match="between 0 and 1, received 60"):
        drawn_split(SplitRequest(100, sizes=[60, 20, 20]))


@pytest.mark.parametrize(
    ("builder", "nodes", "edges", "features", "classes"),
    [
        (Amazon("photo"), 7650, 238162, 745, 8),
        (Amazon("computers"), 13752, 491722, 767, 10),
        (Coauthor("cs"), 18333, 163788, 6805, 15),
        (Coauthor("physics"), 34493, 495924, 8415, 5),
        (CitationFull("Cora_ML"), 2995, 16316, 2879, 7),
    ],
)
def test_cards(builder: Amazon, nodes: int, edges: int, features: int, classes: int) -> None:
    card = builder.card
    assert (card.statistics["nodes"], card.statistics["edges"]) == (nodes, edges)
    assert (card.node_in, card.out_dim, card.metric) == (features, classes, "accuracy")


def test_files_lie_where_pyg_looks_for_them() -> None:
    assert Coauthor("cs").card.files == ("Coauthor/CS/raw/ms_academic_cs.npz",)
    assert Coauthor("physics").card.files == ("Coauthor/Physics/raw/ms_academic_phy.npz",)
    assert Amazon("Computers").card.files == ("Amazon/Computers/raw/amazon_electronics_computers.npz",)
    assert CitationFull("DBLP").card.files == ("CitationFull/dblp/raw/dblp.npz",)


def test_unknown_and_damaged(photo: Path, tmp_path: Path) -> None:
    photo.write_bytes(b"")
    with pytest.raises(UserError, match=r"amazon_electronics_photo.npz cannot be read"):
        Amazon("photo").load(Roots(tmp_path, (), tmp_path / "cache"))


TRAINING_CASES = {
    "Amazon": TrainingCase(
        "nodes/exphormer-photo.yaml",
        write=lambda root: _write(root / Amazon("photo").file, raw_files.NODES, features=745, classes=8),
    ),
    "Coauthor": TrainingCase(
        "nodes/exphormer-cs.yaml",
        write=lambda root: _write(root / Coauthor("cs").file, raw_files.NODES, features=6805, classes=15),
    ),
}
