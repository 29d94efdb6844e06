from __future__ import annotations

import pickle
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import coo_matrix
from torch_geometric.datasets import GNNBenchmarkDataset as Reference

from graphbench.data.datasets.gnn_benchmark import GNNBenchmark
from graphbench.data.files.roots import Roots
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from tests.dataset_case import TrainingCase

COUNTS = (3, 1, 2)


def _graph(name: str, generator: torch.Generator) -> dict[str, Any]:
    nodes, edges = 4, 6
    graph: dict[str, Any] = {"edge_index": torch.randint(0, nodes, (2, edges), generator=generator)}
    if name in ("MNIST", "CIFAR10"):
        graph["x"] = torch.rand(nodes, 1 if name == "MNIST" else 3, generator=generator)
        graph["pos"] = torch.rand(nodes, 2, generator=generator)
        graph["edge_attr"] = torch.rand(edges, generator=generator)
        graph["y"] = torch.randint(0, 10, (1,), generator=generator)
        return graph
    width, classes = (3, 2) if name == "PATTERN" else (7, 6)
    graph["x"] = torch.eye(width)[torch.randint(0, width, (nodes,), generator=generator)]
    graph["y"] = torch.randint(0, classes, (nodes,), generator=generator)
    return graph


def _write_tiny(root: Path, name: str) -> Path:
    folder = root / f"GNNBenchmarkDataset/{name}/raw"
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    parts = [[_graph(name, generator) for _ in range(count)] for count in COUNTS]
    torch.save(parts, folder / f"{name}_v2.pt")
    return folder


@pytest.mark.parametrize("name", ["MNIST", "CIFAR10", "PATTERN", "CLUSTER"])
@pytest.mark.usefixtures("any_size")
def test_same_graphs_as_pyg_reads(name: str, roots: Roots, tmp_path: Path) -> None:
    shutil.copytree(_write_tiny(roots.directory, name), tmp_path / "pyg" / name / "raw")
    parts = [Reference(str(tmp_path / "pyg"), name, split=part) for part in ("train", "val", "test")]
    graphs = [graph for part in parts for graph in part]
    for graph in graphs:
        if "pos" in graph:
            graph.x = torch.cat([graph.x, graph.pos], dim=1)  # what GraphGPS makes of it
    level = "graph" if name in ("MNIST", "CIFAR10") else "node"
    expected = GraphStore.from_graphs(graphs, level)
    loaded = GNNBenchmark(name).load(roots)
    assert loaded.store.y_level == level
    for field in ("node_ptr", "edge_ptr", "edge_index", "x", "edge_attr", "y"):
        assert (getattr(expected, field) is None) == (getattr(loaded.store, field) is None), field
        if getattr(expected, field) is not None:
            torch.testing.assert_close(getattr(loaded.store, field), getattr(expected, field))
    splits = loaded.published["standard"][0]
    assert [part.tolist() for part in splits.parts().values()] == [[0, 1, 2], [3], [4, 5]]
    assert loaded.num_examples == 6  # graphs, whatever the targets belong to


def _write_csl(root: Path) -> None:
    folder = root / "GNNBenchmarkDataset/CSL/raw"
    folder.mkdir(parents=True)
    ring = np.roll(np.eye(5), 1, axis=0)
    matrices = [coo_matrix(ring + ring.T + np.eye(5)) for _ in range(50)]
    (folder / "graphs_Kary_Deterministic_Graphs.pkl").write_bytes(pickle.dumps(matrices))
    torch.save(torch.arange(50) % 10, folder / "y_Kary_Deterministic_Graphs.pt")


@pytest.mark.usefixtures("any_size")
def test_circular_skip_links(roots: Roots) -> None:
    _write_csl(roots.directory)
    loaded = GNNBenchmark("CSL").load(roots)
    store = loaded.store
    assert (store.num_nodes, store.num_edges) == (250, 500)  # no self loops
    assert store.x.eq(1).all()
    assert store.y.tolist() == [number % 10 for number in range(50)]
    folds = [
        make_splits(
            "cv-stratifiedkfold-3", SplitRequest(50, labels=store.y, index=index), allowed=loaded.card.split_modes
        )
        for index in range(3)
    ]
    assert sorted(torch.cat([fold.test for fold in folds]).tolist()) == list(range(50))


def test_messages(roots: Roots) -> None:
    folder = _write_tiny(roots.directory, "CLUSTER")
    with pytest.raises(UserError, match=r"not the published CLUSTER graphs: graphs 6 instead of 12000"):
        GNNBenchmark("CLUSTER").load(roots)
    torch.save([1, 2], folder / "CLUSTER_v2.pt")
    with pytest.raises(UserError, match=r"CLUSTER_v2.pt does not hold three lists of graphs"):
        GNNBenchmark("CLUSTER").load(roots)


@pytest.mark.parametrize(
    ("name", "node_in", "edge_in", "out_dim", "task", "metric"),
    [
        ("MNIST", 3, 1, 10, "graph", "accuracy"),
        ("CIFAR10", 5, 1, 10, "graph", "accuracy"),
        ("PATTERN", 3, 0, 1, "node", "accuracy-SBM"),
        ("CLUSTER", 7, 0, 6, "node", "accuracy-SBM"),
        ("CSL", 1, 0, 10, "graph", "accuracy"),
    ],
)
def test_cards(name: str, node_in: int, edge_in: int, out_dim: int, task: str, metric: str) -> None:
    card = GNNBenchmark(name).card
    assert (card.node_in, card.edge_in, card.out_dim) == (node_in, edge_in, out_dim)
    assert (card.task, card.metric, card.transductive) == (task, metric, False)


TRAINING_CASES = {
    "MNIST": TrainingCase("gnnbench/gps-mnist.yaml", write=partial(_write_tiny, name="MNIST")),
    "CIFAR10": TrainingCase("gnnbench/exphormer-cifar10.yaml", write=partial(_write_tiny, name="CIFAR10")),
    "PATTERN": TrainingCase("gnnbench/san-pattern.yaml", write=partial(_write_tiny, name="PATTERN")),
    "CLUSTER": TrainingCase("gnnbench/gps-cluster.yaml", write=partial(_write_tiny, name="CLUSTER")),
    "CSL": TrainingCase("gnnbench/gps-csl.yaml", write=_write_csl),
}
