"""The ready-made graphs of Benchmarking GNNs: MNIST and CIFAR10 superpixels, SBM-PATTERN and SBM-CLUSTER, CSL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_pickle, read_torch
from graphbench.data.files.roots import Roots
from graphbench.data.graph_records import GraphRecord
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.registry import register
from graphbench.vocabulary import TaskLevel

_URL = "https://data.pyg.org/datasets/benchmarking-gnns/{}_v2.zip"
_CSL_URL = "https://www.dropbox.com/s/rnbkp5ubgk82ocu/CSL.zip?dl=1"
_CSL_FILES = ("graphs_Kary_Deterministic_Graphs.pkl", "y_Kary_Deterministic_Graphs.pt")
_CSL_MODES = ("cv-stratifiedkfold-K", "cv-kfold-K", "cv-stratifiedkfold-5", "random", "fixed", "sliced")


@dataclass(frozen=True)
class _Facts:
    graphs: int
    nodes_per_graph: float
    edges_per_graph: float
    node_in: int
    out_dim: int
    edge_in: int = 0
    task: TaskLevel = "graph"
    metric: str = "accuracy"
    split_modes: tuple[str, ...] = ("standard",)


_FACTS = {
    "MNIST": _Facts(70_000, 70.6, 564.5, node_in=3, out_dim=10, edge_in=1),
    "CIFAR10": _Facts(60_000, 117.6, 941.2, node_in=5, out_dim=10, edge_in=1),
    "PATTERN": _Facts(14_000, 118.9, 6_098.9, node_in=3, out_dim=1, task="node", metric="accuracy-SBM"),
    "CLUSTER": _Facts(12_000, 117.2, 4_303.9, node_in=7, out_dim=6, task="node", metric="accuracy-SBM"),
    "CSL": _Facts(150, 41, 164, node_in=1, out_dim=10, split_modes=_CSL_MODES),
}


@register("PyG-GNNBenchmarkDataset")
class GNNBenchmark(DatasetBuilder):
    """Graphs of Benchmarking GNNs, ready made: superpixels, block models, circular skip links.

    Paper: Benchmarking Graph Neural Networks, https://arxiv.org/abs/2003.00982.

    MNIST and CIFAR10: colours, then the position of the superpixel (3 and 5 columns), one distance per edge. PATTERN
    and CLUSTER: one-hot signals, one class per node. CSL: every node the number 1, no published split (5-fold
    cross-validation). The family ``SBM`` generates graphs by the recipe of PATTERN and CLUSTER instead.

    Args:
        name: ``MNIST``, ``CIFAR10``, ``PATTERN``, ``CLUSTER`` or ``CSL``.
    """

    names = tuple(_FACTS)

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        facts = _FACTS[self.name]
        return DatasetCard(
            name=self.name,
            task=facts.task,
            task_type="classification",
            metric=facts.metric,
            maximize=True,
            node_in=facts.node_in,
            edge_in=facts.edge_in,
            out_dim=facts.out_dim,
            split_modes=facts.split_modes,
            split_counts={} if self.name == "CSL" else {"standard": 1},
            statistics={
                "graphs": facts.graphs,
                "nodes_per_graph": facts.nodes_per_graph,
                "edges_per_graph": facts.edges_per_graph,
            },
            licence="MIT (repository)",
            source=self._url,
            files=self._files,
        )

    @property
    def _url(self) -> str:
        return _CSL_URL if self.name == "CSL" else _URL.format(self.name)

    @property
    def _files(self) -> tuple[str, ...]:
        names = _CSL_FILES if self.name == "CSL" else (f"{self.name}_v2.pt",)
        return tuple(f"GNNBenchmarkDataset/{self.name}/raw/{name}" for name in names)

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card = self.card
        root = roots.require(self.name, card.files, dict.fromkeys(card.files, self._url), fetch=self._fetch)
        files = [root / file for file in card.files]
        store, splits = cached_graphs(roots, "GNNBenchmarkDataset", self.name, files, lambda: self._read(files))
        card.check(store, str(files[0].parent))
        return LoadedDataset(store, card, {} if self.name == "CSL" else {"standard": (splits,)})

    def _fetch(self, directory: Path) -> None:
        download_archive(self._url, directory / f"GNNBenchmarkDataset/{self.name}/raw")

    def _read(self, files: list[Path]) -> tuple[GraphStore, Splits]:
        if self.name == "CSL":
            return _read_csl(*files), Splits.consecutive([0, 0, 0])
        parts = read_torch(files[0])
        if not isinstance(parts, list | tuple) or len(parts) != 3:
            raise UserError(
                f"{files[0]} does not hold three lists of graphs: delete it and let it be downloaded again."
            )
        superpixels = self.name in ("MNIST", "CIFAR10")
        convert = _superpixels if superpixels else _blocks
        graphs = [convert(graph) for part in parts for graph in part]
        store = GraphStore.from_graphs(graphs, "graph" if superpixels else "node")
        return store, Splits.consecutive([len(part) for part in parts])


def _superpixels(graph: dict[str, Any]) -> GraphRecord:
    return GraphRecord(
        edge_index=graph["edge_index"],
        x=torch.cat([graph["x"], graph["pos"]], dim=1).to(torch.float32),
        edge_attr=graph["edge_attr"].to(torch.float32).view(-1, 1),
        y=torch.as_tensor(graph["y"]).to(torch.int64),
    )


def _blocks(graph: dict[str, Any]) -> GraphRecord:
    return GraphRecord(
        edge_index=graph["edge_index"],
        x=graph["x"].to(torch.float32),
        y=graph["y"].to(torch.int64).view(-1),
    )


def _read_csl(adjacency: Path, labels: Path) -> GraphStore:
    graphs = []
    for matrix, label in zip(read_pickle(adjacency), read_torch(labels).tolist(), strict=True):
        edge_index = torch.stack([torch.from_numpy(ends).to(torch.int64) for ends in (matrix.row, matrix.col)])
        edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        graphs.append(GraphRecord(edge_index, x=torch.ones(matrix.shape[0], 1), y=torch.tensor(int(label))))
    return GraphStore.from_graphs(graphs)
