from __future__ import annotations

import zipfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench import registry
from graphbench.data.datasets import ogb_node
from graphbench.data.datasets.ogb import OGB
from graphbench.data.datasets.ogb_node import OGBNode, _Facts, amazon2m_split
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError
from tests.dataset_case import TrainingCase
from tests.raw_files import NODES, node_parts, random_edges, rng, write_table

CITATIONS = [(0, 1), (1, 0), (2, 1)]  # 0 and 1 cite each other


def _write(folder: Path, split: str, edges: list, **tables: list) -> None:
    write_table(folder / "raw/edge.csv.gz", edges)
    write_table(folder / "raw/num-node-list.csv.gz", [3])
    for name, rows in tables.items():
        write_table(folder / f"raw/{name.replace('_', '-')}.csv.gz", rows)
    for number, part in enumerate(("train", "valid", "test")):
        write_table(folder / f"split/{split}/{part}.csv.gz", [number])


@pytest.fixture
def arxiv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ogb/ogbn_arxiv"
    _write(folder, "time", CITATIONS, node_feat=[[0.5, 1], [2, 3], [4, 5]], node_label=[7, 39, 0])
    monkeypatch.setitem(ogb_node._FACTS, "ogbn-arxiv", _Facts(NodeFacts(3, 3, 2, 40), "time", False))
    return folder


def _edges(tmp_path: Path, **arguments: bool) -> list[list[int]]:
    store = OGBNode("ogbn-arxiv", **arguments).load(Roots(tmp_path, (), tmp_path / "cache")).store
    return store.gather([0]).edge_index.T.tolist()


def test_arxiv(arxiv: Path, tmp_path: Path) -> None:
    loaded = OGBNode("ogbn-arxiv").load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert batch.x.tolist() == [[0.5, 1], [2, 3], [4, 5]]
    assert batch.y.tolist() == [7, 39, 0]
    split = make_splits("standard", SplitRequest(3, published=loaded.published), allowed=loaded.card.split_modes)
    assert [part.tolist() for part in split.parts().values()] == [[0], [1], [2]]


def test_three_forms_of_the_citations(arxiv: Path, tmp_path: Path) -> None:
    listed = [list(pair) for pair in CITATIONS]
    assert _edges(tmp_path, undirected=False) == listed
    assert _edges(tmp_path) == [[0, 1], [1, 0], [1, 2], [2, 1]]
    appended = [*listed, *(pair[::-1] for pair in listed)]
    assert _edges(tmp_path, add_reverse_edges=True) == appended
    assert _edges(tmp_path, add_reverse_edges=True, add_self_loops=True) == [*appended, [0, 0], [1, 1], [2, 2]]


def test_second_load_comes_from_the_cache(arxiv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = OGBNode("ogbn-arxiv").load(Roots(tmp_path, (), tmp_path / "cache"))
    monkeypatch.setattr(ogb_node, "read_csv", lambda path, **options: pytest.fail(f"read {path} again"))
    second = OGBNode("ogbn-arxiv").load(Roots(tmp_path, (), tmp_path / "cache"))
    assert first.store.fingerprint == second.store.fingerprint
    write_table(arxiv / "raw/node-label.csv.gz", [1, 1, 1])  # other raw files: not from the cache
    with pytest.raises(pytest.fail.Exception, match="again"):
        OGBNode("ogbn-arxiv").load(Roots(tmp_path, (), tmp_path / "cache"))


@pytest.mark.parametrize("species_file", ["species", "node_species"])
def test_proteins(species_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ogb/ogbn_proteins"
    features = [[0.1 * (column + row) for column in range(8)] for row in range(2)]
    labels = [[0] * 112, [1] * 112, [0, 1] * 56]
    _write(folder, "species", [(0, 1), (1, 2)], node_label=labels, edge_feat=features)
    write_table(folder / f"raw/{species_file}.csv.gz", [3702, 4932, 6239])
    graph = NodeFacts(3, 4, 1, 112)
    monkeypatch.setitem(ogb_node._FACTS, "ogbn-proteins", _Facts(graph, "species", True))
    loaded = OGBNode("ogbn-proteins").load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert batch.edge_index.T.tolist() == [[0, 1], [1, 2], [1, 0], [2, 1]]
    assert torch.equal(batch.edge_attr, torch.tensor(features + features))
    assert batch.x.tolist() == [[3702], [4932], [6239]]
    assert (batch.y.shape, batch.y.dtype) == ((3, 112), torch.float32)
    means = OGBNode("ogbn-proteins", node_features="edge_mean").load(Roots(tmp_path, (), tmp_path / "cache"))
    first, second = torch.tensor(features)
    torch.testing.assert_close(means.store.x, torch.stack([first, (first + second) / 2, second]))
    assert (means.card.node_in, loaded.card.node_in, loaded.card.edge_in) == (8, 1, 8)


def test_the_metric_of_proteins_takes_its_targets() -> None:
    card = OGBNode("ogbn-proteins").card
    metric = registry.lookup("tasks/metrics", card.metric)(card.task_type, card.out_dim)
    labels = (torch.rand(20, 112) < 0.5).float()
    assert metric(labels, labels) == 1.0


def test_amazon2m_is_products_split_at_random() -> None:
    card = OGBNode("ogbn-products").card
    assert "amazon2m" in card.split_modes
    assert "amazon2m" not in OGBNode("ogbn-arxiv").card.split_modes
    made = amazon2m_split(SplitRequest(101, seed=1)).check(101)
    assert [len(part) for part in made.parts().values()] == [50, 25, 26]
    assert not torch.equal(made.train, amazon2m_split(SplitRequest(101, seed=2)).train)


def test_published_counts_and_places() -> None:
    arxiv, products, proteins = (OGBNode(f"ogbn-{name}").card for name in ("arxiv", "products", "proteins"))
    assert (arxiv.statistics["nodes"], arxiv.node_in, arxiv.out_dim) == (169343, 128, 40)
    assert (products.statistics["edges"], products.node_in, products.out_dim) == (123718280, 100, 47)
    assert (proteins.statistics["nodes"], proteins.out_dim, proteins.metric) == (132534, 112, "auc")
    assert "ogb/ogbn_products/split/sales_ranking/valid.csv.gz" in products.files


def test_archive_is_unpacked_where_the_files_are_looked_for(
    arxiv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "served").mkdir()
    with zipfile.ZipFile(tmp_path / "served/arxiv.zip", "w") as archive:
        for file in sorted(arxiv.rglob("*.gz")):
            archive.write(file, Path("arxiv") / file.relative_to(arxiv))
    monkeypatch.setattr(ogb_node, "_URL", (tmp_path / "served").as_uri())
    loaded = OGBNode("ogbn-arxiv").load(Roots(tmp_path / "fresh", (), tmp_path / "cache"))
    assert loaded.store.num_nodes == 3
    assert (tmp_path / "fresh/ogb/ogbn_arxiv/split/time/test.csv.gz").is_file()


def test_format_ogb_knows_the_names_and_hands_on_the_options(arxiv: Path, tmp_path: Path) -> None:
    loaded = OGB("ogbn-arxiv", add_reverse_edges=True).load(Roots(tmp_path, (), tmp_path / "cache"))
    assert loaded.store.num_edges == 2 * len(CITATIONS)
    assert OGB("ogbn-proteins", node_features="edge_mean").card.node_in == 8


def test_wrong_input(arxiv: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="node_features must be one of species, edge_mean; received 'mean'"):
        OGBNode("ogbn-proteins", node_features="mean")
    write_table(arxiv / "raw/node-label.csv.gz", [7, 39])
    with pytest.raises(UserError, match="3 rows of features and 2 of labels for 3 nodes"):
        OGBNode("ogbn-arxiv").load(Roots(tmp_path, (), tmp_path / "cache"))


def write_training_files(name: str, split: str, tables: dict[str, Iterable[object]], root: Path) -> None:
    folder = root / f"ogb/{name}"
    write_table(folder / "raw/edge.csv.gz", random_edges().T)
    write_table(folder / "raw/num-node-list.csv.gz", [NODES])
    for table, rows in tables.items():
        write_table(folder / f"raw/{table}.csv.gz", rows)
    for part, numbers in zip(("train", "valid", "test"), node_parts(), strict=True):
        write_table(folder / f"split/{split}/{part}.csv.gz", numbers)


NODE = np.arange(NODES)
ARXIV = {"node-feat": rng().standard_normal((NODES, 128)).round(3), "node-label": NODE % 40}
PRODUCTS = {"node-feat": rng().standard_normal((NODES, 100)).round(3), "node-label": NODE % 47}
PROTEINS = {
    "node-label": rng().integers(0, 2, (NODES, 112)),
    "edge-feat": rng().random((120, 8)).round(3),
    "species": [3702, 4932] * (NODES // 2),
}
TWO_PARTS = {"train.train_parts": 2}
TRAINING_CASES = {
    "ogbn-arxiv": TrainingCase(
        "large/sgformer-arxiv.yaml", write=partial(write_training_files, "ogbn_arxiv", "time", ARXIV)
    ),
    "ogbn-proteins": TrainingCase(
        "large/sgformer-proteins.yaml",
        write=partial(write_training_files, "ogbn_proteins", "species", PROTEINS),
        overrides=TWO_PARTS,
    ),
    "Amazon2M": TrainingCase(
        "large/sgformer-amazon2m.yaml",
        write=partial(write_training_files, "ogbn_products", "sales_ranking", PRODUCTS),
        overrides=TWO_PARTS,
    ),
}
