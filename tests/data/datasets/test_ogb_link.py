from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench import registry
from graphbench.data.datasets import ogb_link
from graphbench.data.datasets.ogb import OGB
from graphbench.data.datasets.ogb_link import OGBLink, _Facts
from graphbench.data.files.roots import Roots
from graphbench.errors import UserError
from tests import raw_files
from tests.dataset_case import TrainingCase
from tests.raw_files import made, random_edges, rng, write_table

NODES = 6
TRAIN = np.array([[0, 1], [1, 2], [3, 4]])


def _write(folder: Path, split: str) -> None:
    write_table(folder / "raw/edge.csv.gz", TRAIN)
    write_table(folder / "raw/num-node-list.csv.gz", np.array([NODES]))
    (folder / f"split/{split}").mkdir(parents=True)
    parts = {
        "train": {"edge": TRAIN},
        "valid": {"edge": np.array([[0, 2]]), "edge_neg": np.array([[0, 5], [1, 5]])},
        "test": {"edge": torch.tensor([[2, 3], [4, 5]]), "edge_neg": torch.tensor([[0, 4]])},
    }
    for name, part in parts.items():
        torch.save(part, folder / f"split/{split}/{name}.pt")


def test_pairs_are_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / "ogb/ogbl_ddi", "target")
    monkeypatch.setitem(ogb_link._FACTS, "ogbl-ddi", _Facts(NODES, 0, "hits@20", "target", "ddi"))
    loaded = OGB("ogbl-ddi").load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert batch.x.tolist() == [[1.0]] * NODES
    assert batch.edge_index.T.tolist() == [[0, 1], [1, 2], [3, 4], [1, 0], [2, 1], [4, 3]]
    (split,) = loaded.published["standard"]
    split.check(loaded.num_examples)
    pairs = batch.edge_sets["label"].index.T.tolist()
    asked = {part: [(*pairs[row], int(batch.y[row])) for row in rows] for part, rows in split.parts().items()}
    assert asked["val"] == [(0, 2, 1), (0, 5, 0), (1, 5, 0)]
    assert asked["test"] == [(2, 3, 1), (4, 5, 1), (0, 4, 0)]
    assert asked["train"][:3] == [(0, 1, 1), (1, 2, 1), (3, 4, 1)]
    edges = set(map(tuple, batch.edge_index.T.tolist()))
    drawn = asked["train"][3:]
    assert len(drawn) == 3
    for source, target, label in drawn:
        assert label == 0
        assert source != target
        assert (source, target) not in edges


def test_binary_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ogb/ogbl_vessel"
    _write(folder, "spatial")
    np.savez(folder / "raw/data.npz", edge_index=TRAIN.T, node_feat=np.ones((NODES, 3)), num_nodes_list=[NODES])
    part = torch.load(folder / "split/spatial/valid.pt", weights_only=False) | {"edge_neg": np.array([[0, 5]])}
    torch.save(part | {"edge": TRAIN}, folder / "split/spatial/train.pt")  # vessel has unlinked training pairs, too
    facts = _Facts(NODES, 3, "auc", "spatial", "vessel", listed_once=False)
    monkeypatch.setitem(ogb_link._FACTS, "ogbl-vessel", facts)
    loaded = OGBLink("ogbl-vessel").load(Roots(tmp_path, (), tmp_path / "cache"))
    assert loaded.store.gather([0]).edge_index.T.tolist() == TRAIN.tolist()
    (split,) = loaded.published["standard"]
    assert loaded.store.y[split.train].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("name", ogb_link.OGBLink.names)
def test_cards(name: str) -> None:
    card = OGBLink(name).card
    assert (card.task, card.out_dim, card.maximize) == ("link_pred", 1, True)
    assert card.metric in registry.names("tasks/metrics")


def _write_citation2(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(folder / "raw/edge.csv.gz", TRAIN)
    write_table(folder / "raw/num-node-list.csv.gz", np.array([NODES]))
    write_table(folder / "raw/node-feat.csv.gz", np.ones((NODES, 3)))
    (folder / "split/time").mkdir(parents=True)
    parts = {
        "train": {"source_node": TRAIN[:, 0], "target_node": TRAIN[:, 1]},
        "valid": {"source_node": np.array([5]), "target_node": np.array([0])},
        "test": {"source_node": np.array([4, 5]), "target_node": np.array([1, 2])},
    }
    parts["valid"]["target_node_neg"] = np.array([[1, 2]])
    parts["test"]["target_node_neg"] = np.array([[0, 2], [3, 0]])
    for name, part in parts.items():
        torch.save(part, folder / f"split/time/{name}.pt")
    facts = _Facts(NODES, 3, "mrr_candidates", "time", "citation-v2", listed_once=False)
    monkeypatch.setitem(ogb_link._FACTS, "ogbl-citation2", facts)


def test_every_citation_is_followed_by_its_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_citation2(tmp_path / "ogb/ogbl_citation2", monkeypatch)
    loaded = OGB("ogbl-citation2").load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert batch.edge_index.shape[1] == 6
    (split,) = loaded.published["standard"]
    split.check(loaded.num_examples)
    pairs = batch.edge_sets["label"].index.T.tolist()
    asked = {part: [(*pairs[row], int(batch.y[row])) for row in rows] for part, rows in split.parts().items()}
    assert asked["val"] == [(5, 0, 1), (5, 1, 0), (5, 2, 0)]
    assert asked["test"] == [(4, 1, 1), (4, 0, 0), (4, 2, 0), (5, 2, 1), (5, 3, 0), (5, 0, 0)]
    assert [(source, label) for source, _, label in asked["train"]] == [(s, y) for s, _ in TRAIN for y in (1, 0)]
    assert [target for _, target, label in asked["train"] if label] == TRAIN[:, 1].tolist()
    directed = OGB("ogbl-citation2", undirected=False).load(Roots(tmp_path, (), tmp_path / "cache"))
    assert directed.store.gather([0]).edge_index.T.tolist() == TRAIN.tolist()


def test_missing_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / "ogb/ogbl_ddi", "target")
    monkeypatch.setitem(ogb_link._FACTS, "ogbl-ddi", _Facts(NODES, 0, "hits@20", "target", "ddi"))
    torch.save({"edge": TRAIN}, tmp_path / "ogb/ogbl_ddi/split/target/test.pt")
    with pytest.raises(UserError, match="there is no 'edge_neg' in one of the parts"):
        OGBLink("ogbl-ddi").load(Roots(tmp_path, (), tmp_path / "cache"))


def _write_training_graph(folder: Path) -> np.ndarray:
    edges = random_edges().T
    write_table(folder / "raw/edge.csv.gz", edges)
    write_table(folder / "raw/num-node-list.csv.gz", [raw_files.NODES])
    write_table(folder / "raw/node-feat.csv.gz", rng().standard_normal((raw_files.NODES, 128)).round(3))
    made(folder / "split/time")
    return edges


def write_collab(root: Path) -> None:
    folder = root / "ogb/ogbl_collab"
    edges = _write_training_graph(folder)
    asked = {"edge": random_edges(edges=60).T, "edge_neg": random_edges(edges=80).T}
    for part in ("train", "valid", "test"):
        torch.save({"edge": edges} if part == "train" else asked, folder / f"split/time/{part}.pt")


def write_citation2(root: Path) -> None:
    folder = root / "ogb/ogbl_citation2"
    edges = _write_training_graph(folder)
    torch.save({"source_node": edges[:, 0], "target_node": edges[:, 1]}, folder / "split/time/train.pt")
    ranked = {"source_node": edges[:10, 0], "target_node": edges[:10, 1]}
    ranked["target_node_neg"] = rng().integers(0, raw_files.NODES, (10, 20))
    for part in ("valid", "test"):
        torch.save(ranked, folder / f"split/time/{part}.pt")


TRAINING_CASES = {
    "ogbl-collab": TrainingCase("ogb/gcn-collab.yaml", write=write_collab),
    "ogbl-citation2": TrainingCase("ogb/gcn-citation2.yaml", write=write_citation2),
}
