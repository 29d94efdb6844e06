from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric import datasets as pyg

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.datasets.geom_gcn import _FACTS, Actor, WebKB, WikipediaNetwork
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError
from graphbench.structures import as_dense
from tests.dataset_case import PublishedCounts, TrainingCase
from tests.raw_files import NODES, made, node_parts, random_edges, rng


def _load(builder: DatasetBuilder, data_root: Path, tmp_path: Path) -> LoadedDataset:
    return builder.load(Roots(tmp_path / "own", (data_root,), tmp_path / "cache"))


def _split_sizes(loaded: LoadedDataset, index: int = 0) -> list[int]:
    made = make_splits(
        "standard",
        SplitRequest(loaded.num_examples, index=index, published=loaded.published),
        allowed=loaded.card.split_modes,
    )
    return [len(part) for part in made.parts().values()]


@pytest.mark.parametrize(
    ("builder", "folder", "reference"),
    [
        (Actor("none"), "Actor", lambda root: pyg.Actor(str(root / "Actor"))),
        (
            WikipediaNetwork("chameleon"),
            "WikipediaNetwork",
            lambda root: pyg.WikipediaNetwork(str(root / "WikipediaNetwork"), "chameleon"),
        ),
    ],
)
def test_as_pyg_reads_the_real_files(
    builder: DatasetBuilder, folder: str, reference: Any, data_root: Path, tmp_path: Path
) -> None:
    shutil.copytree(data_root / folder, tmp_path / folder, copy_function=shutil.copyfile)
    for path in (tmp_path / folder).rglob("*"):
        os.chmod(path, 0o755)
    expected = reference(tmp_path)[0]
    loaded = _load(builder, data_root, tmp_path)
    batch = loaded.store.gather([0])
    assert torch.equal(as_dense(batch.x), expected.x)
    assert torch.equal(batch.y, expected.y)
    assert torch.equal(batch.edge_index, expected.edge_index)
    for number, split in enumerate(loaded.published["standard"]):
        for part, mask in (("train", expected.train_mask), ("val", expected.val_mask), ("test", expected.test_mask)):
            assert torch.equal(split.parts()[part], mask[:, number].nonzero().view(-1))


def test_squirrel_has_the_published_counts(data_root: Path, tmp_path: Path) -> None:
    loaded = _load(WikipediaNetwork("squirrel"), data_root, tmp_path)
    assert (loaded.store.num_nodes, loaded.store.num_edges) == (5201, 217073)
    assert {tuple(_split_sizes(loaded, index)) for index in range(10)} == {(2496, 1664, 1041)}
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "split"),
    [
        ("chameleon_filtered", 890, 2 * 8854, [409, 287, 194]),
        ("squirrel_filtered", 2223, 2 * 46998, [1053, 718, 452]),
        ("chameleon_filtered_directed", 890, 13584, [409, 287, 194]),
        ("squirrel_filtered_directed", 2223, 65718, [1053, 718, 452]),
    ],
)
def test_filtered_graphs(name: str, nodes: int, edges: int, split: list[int], data_root: Path, tmp_path: Path) -> None:
    loaded = _load(WikipediaNetwork(name), data_root, tmp_path)
    assert (loaded.store.num_nodes, loaded.store.num_edges) == (nodes, edges)
    assert _split_sizes(loaded) == split
    assert len(loaded.published["standard"]) == 10
    source, target = loaded.store.gather([0]).edge_index.tolist()
    symmetric = set(zip(source, target, strict=True)) == set(zip(target, source, strict=True))
    assert symmetric is not name.endswith("directed")


def test_undirected_and_normalised_on_request(data_root: Path, tmp_path: Path) -> None:
    store = _load(Actor(undirected=True, normalize_features=True), data_root, tmp_path).store
    assert store.num_edges == 2 * 26659 + 93  # undirected edges and self loops of the data folder's table
    assert set(as_dense(store.x).sum(1).round(decimals=5).tolist()) <= {0.0, 1.0}


def _write_web_graph(folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    rows = ["node_id\tfeature\tlabel", "1\t0,1,1\t4", "0\t1,0,0\t0", "2\t0,0,0\t2"]
    (folder / "out1_node_feature_label.txt").write_text("\n".join(rows) + "\n")
    (folder / "out1_graph_edges.txt").write_text("node_id\tnode_id\n0\t1\n2\t0\n0\t1\n1\t1\n")
    for number in range(10):
        masks = np.eye(3, dtype=bool)
        np.savez(
            folder / f"{name}_split_0.6_0.2_{number}.npz", train_mask=masks[0], val_mask=masks[1], test_mask=masks[2]
        )


def test_webkb_from_files_of_the_same_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_web_graph(tmp_path / "WebKB/texas/raw", "texas")
    monkeypatch.setitem(_FACTS, "texas", NodeFacts(3, 3, 3, 5))
    loaded = WebKB("texas").load(Roots(tmp_path, (), tmp_path / "cache"))
    batch = loaded.store.gather([0])
    assert batch.x.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]  # by node number, not by line
    assert batch.y.tolist() == [0, 4, 2]
    assert batch.edge_index.T.tolist() == [[0, 1], [1, 1], [2, 0]]  # repetitions removed, self loops kept
    assert _split_sizes(loaded, 9) == [1, 1, 1]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "out1_graph_edges.txt",
            "node_id\tnode_id\n0\t7\n",
            "out1_graph_edges.txt cannot be read",
        ),
        (
            "out1_graph_edges.txt",
            "node_id\tnode_id\n0\tx\n",
            "out1_graph_edges.txt cannot be read",
        ),
        (
            "out1_node_feature_label.txt",
            "node_id\tfeature\tlabel\n0\t1,0,0\n",
            "out1_graph_edges.txt cannot be read",
        ),
        (
            "out1_node_feature_label.txt",
            "node_id\tfeature\tlabel\n0\t1,0,0\t1\n",
            "out1_graph_edges.txt cannot be read",
        ),
        ("texas_split_0.6_0.2_4.npz", "no zip", "texas_split_0.6_0.2_4.npz cannot be read"),
    ],
)
def test_damaged_files_end_in_one_message(
    file: str, content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_web_graph(tmp_path / "WebKB/texas/raw", "texas")
    monkeypatch.setitem(_FACTS, "texas", NodeFacts(3, 3, 3, 5))
    (tmp_path / "WebKB/texas/raw" / file).write_text(content)
    with pytest.raises(UserError, match=message):
        WebKB("texas").load(Roots(tmp_path, (), tmp_path / "cache"))


def test_cards_need_no_data() -> None:
    for builder, nodes in ((Actor(), 7600), (WebKB("Cornell"), 183), (WikipediaNetwork("squirrel_filtered"), 2223)):
        assert isinstance(builder, DatasetBuilder)
        assert builder.card.statistics["nodes"] == nodes
        assert builder.card.info().out_dim == 5


def write_training_files(root: Path) -> None:
    folder = made(root / "WebKB/texas/raw")
    x = rng().integers(0, 2, (NODES, 1703))
    rows = (f"{node}\t{','.join(map(str, x[node]))}\t{node % 5}" for node in range(NODES))
    (folder / "out1_node_feature_label.txt").write_text("\n".join(["node_id\tfeature\tlabel", *rows]) + "\n")
    edges = (f"{source}\t{target}" for source, target in random_edges().T)
    (folder / "out1_graph_edges.txt").write_text("\n".join(["node_id\tnode_id", *edges]) + "\n")
    parts = zip(("train", "val", "test"), node_parts(), strict=True)
    masks = {f"{part}_mask": np.isin(np.arange(NODES), numbers) for part, numbers in parts}
    for number in range(10):
        np.savez(folder / f"texas_split_0.6_0.2_{number}.npz", **masks)


TRAINING_CASES = {
    "WebKB": TrainingCase("nodes/gps-texas.yaml", write=write_training_files),
    "Actor": TrainingCase("nodes/sgformer-actor.yaml", real="Actor"),
    "Wikipedia": TrainingCase(
        "nodes/sgformer-chameleon.yaml", real="WikipediaNetwork/chameleon", overrides={"dataset.name": "chameleon"}
    ),
    "filtered": TrainingCase("nodes/sgformer-squirrel.yaml", real="heterophilous_filtered"),
}
PUBLISHED_COUNTS = {
    "PyG-Actor/none": PublishedCounts(1, 7600, 30019, 932, 5, (3648, 2432, 1520), 10),
    "PyG-WebKB/cornell": PublishedCounts(1, 183, 298, 1703, 5, (87, 59, 37), 10),
    "PyG-WebKB/texas": PublishedCounts(1, 183, 325, 1703, 5, (87, 59, 37), 10),
    "PyG-WebKB/wisconsin": PublishedCounts(1, 251, 515, 1703, 5, (120, 80, 51), 10),
    "PyG-WikipediaNetwork/chameleon": PublishedCounts(1, 2277, 36101, 2325, 5, (1092, 729, 456), 10),
    "PyG-WikipediaNetwork/squirrel": PublishedCounts(1, 5201, 217073, 2089, 5, (2496, 1664, 1041), 10),
    "PyG-WikipediaNetwork/chameleon_filtered": PublishedCounts(1, 890, 2 * 8854, 2325, 5, splits=10),
    "PyG-WikipediaNetwork/squirrel_filtered": PublishedCounts(1, 2223, 2 * 46998, 2089, 5, splits=10),
    "PyG-WikipediaNetwork/chameleon_filtered_directed": PublishedCounts(1, 890, 13584, 2325, 5, splits=10),
    "PyG-WikipediaNetwork/squirrel_filtered_directed": PublishedCounts(1, 2223, 65718, 2089, 5, splits=10),
}
