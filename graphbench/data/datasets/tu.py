"""The TU collection: many small graphs in plain text files, one class label per graph."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard, out_dim_of
from graphbench.data.datasets.tu_files import read_raw
from graphbench.data.files.download import download_zip, file_sha256
from graphbench.data.files.roots import Roots
from graphbench.data.files.tensor_cache import cached_tensors
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import check_one_of
from graphbench.registry import FromContext, register

_URL = "https://www.chrsmrrs.com/graphkerneldatasets"
_READER_VERSION = 1
_MODES = (
    "cv-stratifiedkfold-K",
    "cv-kfold-K",
    "cv-stratifiedkfold-10",
    "folds",
    "random",
    "random-split",
    "fixed",
    "sliced",
)


@dataclass(frozen=True)
class _Facts:
    statistics: dict[str, float]
    classes: int = 2
    node_labels: int = 0
    node_attributes: int = 0
    edge_labels: int = 0
    max_degree: int | None = None


def _averages(graphs: int, nodes: float, undirected_edges: float) -> dict[str, float]:
    """Statistics from the collection's own table, which counts every edge once."""
    return {"graphs": graphs, "nodes_per_graph": nodes, "edges_per_graph": 2 * undirected_edges}


_FACTS = {
    "MUTAG": _Facts({"graphs": 188, "nodes": 3371, "edges": 7442}, node_labels=7, edge_labels=4),
    "NCI1": _Facts({"graphs": 4110, "nodes": 122747, "edges": 265506}, node_labels=37),
    "NCI109": _Facts(_averages(4127, 29.68, 32.13), node_labels=38),
    "PTC_MR": _Facts(_averages(344, 14.29, 14.69), node_labels=18, edge_labels=4),
    "PROTEINS": _Facts(_averages(1113, 39.06, 72.82), node_labels=3, node_attributes=1),
    "ENZYMES": _Facts(_averages(600, 32.63, 62.14), classes=6, node_labels=3, node_attributes=18),
    "DD": _Facts(_averages(1178, 284.32, 715.66), node_labels=89),
    "IMDB-BINARY": _Facts({"graphs": 1000, "nodes": 19773, "edges": 193062}, max_degree=135),
    "IMDB-MULTI": _Facts(_averages(1500, 13.00, 65.94), classes=3),
    "COLLAB": _Facts({"graphs": 5000, "nodes": 372474, "edges": 24572158}, classes=3, max_degree=491),
    "REDDIT-BINARY": _Facts(_averages(2000, 429.63, 497.75)),
    "REDDIT-MULTI-5K": _Facts(_averages(4999, 508.52, 594.87), classes=5),
    "REDDIT-MULTI-12K": _Facts(_averages(11929, 391.41, 456.89), classes=11),
    "TRIANGLES": _Facts({"graphs": 45000}, classes=10, node_attributes=1),
}


@register("PyG-TUDataset")
class TUDataset(DatasetBuilder):
    """Small graphs of the TU collection with a class or a number per graph.

    Paper: TUDataset: A collection of benchmark datasets for learning with graphs, https://arxiv.org/abs/2007.08663.

    Any set of the collection whose raw files are at hand loads: ``TUDataset/<name>/raw/<name>_A.txt``, ..., or
    adjacency lists in one file, ``TUDataset/<name>/<name>.txt.gz``. Those that are listed declare their facts, the
    others are measured. Reading follows PyG: labels counted from the smallest, self loops and
    repeated edges removed (of a repeated edge the first label stays; PyG adds them up). Splits: GraphGPS's
    cross-validation; ``folds`` are the ten of https://arxiv.org/abs/1912.09893, read from
    ``TUDataset/folds/<name>_splits.json``.

    Args:
        name: name in the collection, e.g. ``NCI1``.
        labels: node and edge labels as ``one_hot`` floats (as PyG) or as ``category`` columns (type dictionaries).
        node_attributes: put the continuous node attributes before the one-hot labels.
        edge_attributes: put the continuous edge attributes before the one-hot labels.
        degrees: where nodes have no labels, their degree is their label (PyG's ``OneHotDegree`` with ``one_hot``).
    """

    names = tuple(_FACTS)
    offered_by: ClassVar = {"PyG": {"TU_IMDB": "IMDB-MULTI", "TU_*": "*"}}

    def __init__(
        self,
        name: FromContext[str],
        *,
        labels: Literal["one_hot", "category"] = "one_hot",
        node_attributes: bool = False,
        edge_attributes: bool = False,
        degrees: bool = False,
    ) -> None:
        check_one_of(("one_hot", "category"), labels=labels)
        if labels == "category" and (node_attributes or edge_attributes):
            raise ValueError("categories and continuous attributes cannot share a column: use labels: one_hot")
        self.name = name  # unchecked: a set of the collection that has no card here is measured
        self.labels = labels
        self.node_attributes, self.edge_attributes = node_attributes, edge_attributes
        self.degrees = degrees

    @property
    def card(self) -> DatasetCard | None:
        """Declared facts; None for a set without a table of facts in this file."""
        if self.name not in _FACTS or self.edge_attributes:
            return None
        facts = _FACTS[self.name]
        if self.degrees and not facts.node_labels:
            if facts.max_degree is None:
                return None
            facts = dataclasses.replace(facts, node_labels=facts.max_degree + 1)
        one_hot = self.labels == "one_hot"
        columns = facts.node_labels if one_hot else min(facts.node_labels, 1)
        vocabularies = {"node": (facts.node_labels,), "edge": (facts.edge_labels,)}
        return self._card(
            node_in=(columns + facts.node_attributes * self.node_attributes) or 1,
            edge_in=facts.edge_labels if one_hot else min(facts.edge_labels, 1),
            out_dim=1 if facts.classes == 2 else facts.classes,
            vocabularies={} if one_hot else {level: sizes for level, sizes in vocabularies.items() if sizes[0]},
            statistics=facts.statistics,
        )

    def _card(self, **facts: object) -> DatasetCard:
        known: dict[str, object] = {"task_type": "classification", "metric": "accuracy", "maximize": True} | facts
        return DatasetCard(
            name=self.name,
            task="graph",
            split_modes=_MODES,
            split_counts={"folds": 10},
            source=f"{_URL}/{self.name}.zip",
            files=tuple(self._files("A", "graph_indicator")),
            split_files={"folds": (self._folds_file,)},
            **known,  # type: ignore[arg-type]
        )

    @property
    def _folds_file(self) -> str:
        return f"TUDataset/folds/{self.name}_splits.json"

    def _files(self, *parts: str) -> list[str]:
        return [f"TUDataset/{self.name}/raw/{self.name}_{part}.txt" for part in parts]

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        files, root = self._raw(roots)
        key = {
            "family": "TUDataset",
            "version": _READER_VERSION,
            "raw": {file.name: file_sha256(file) for file in files},
        }
        read = cached_tensors(roots.cache / "TUDataset", self.name, key, lambda: read_raw(files, self.name))
        if self.degrees and "node_labels" not in read:
            read["node_labels"] = _degrees(read)[:, None]
        x, node_vocabulary = _features(read, "node", self.labels, self.node_attributes)
        edge_attr, edge_vocabulary = _features(read, "edge", self.labels, self.edge_attributes)
        store = GraphStore(
            read["node_ptr"],
            read["edge_ptr"],
            read["edge_index"],
            x=torch.ones(int(read["node_ptr"][-1]), 1) if x is None else x,
            edge_attr=edge_attr,
            y=read["y"],
        )
        card = self.card or self._measured(store, {"node": node_vocabulary, "edge": edge_vocabulary})
        card.check(store, str(root))
        folds = self._folds(roots)
        return LoadedDataset(store, card, {"folds": folds} if folds else {})

    def _raw(self, roots: Roots) -> tuple[list[Path], Path]:
        compact = f"TUDataset/{self.name}/{self.name}.txt.gz"
        plain = self._files("A", "graph_indicator")
        if roots.find(*plain) is None and (root := roots.find(compact)) is not None:
            return [root / compact], root / compact
        root = roots.require(self.name, plain, dict.fromkeys(plain, f"{_URL}/{self.name}.zip"), fetch=self._fetch)
        folder = root / f"TUDataset/{self.name}/raw"
        return sorted(folder.glob(f"{self.name}_*.txt")), folder

    def _fetch(self, directory: Path) -> None:
        download_zip(f"{_URL}/{self.name}.zip", directory / f"TUDataset/{self.name}/raw", f"{self.name}_")

    def _measured(self, store: GraphStore, vocabularies: dict[str, tuple[int, ...]]) -> DatasetCard:
        assert store.x is not None
        assert store.y is not None
        regression = store.y.is_floating_point()
        task_type = "regression" if regression else "classification"
        return self._card(
            node_in=store.x.shape[1],
            edge_in=0 if store.edge_attr is None else store.edge_attr.shape[1],
            out_dim=out_dim_of(store.y, task_type),
            vocabularies={level: sizes for level, sizes in vocabularies.items() if sizes},
            task_type=task_type,
            metric="mae" if regression else "accuracy",
            maximize=not regression,
        )

    def _folds(self, roots: Roots) -> tuple[Splits, ...]:
        root = roots.find(self._folds_file)
        if root is None:
            return ()
        folds = json.loads((root / self._folds_file).read_text(encoding="utf-8"))
        chosen = [(fold["model_selection"][0], fold["test"]) for fold in folds]
        return tuple(Splits.of(inner["train"], inner["validation"], test) for inner, test in chosen)


def _degrees(read: dict[str, Tensor]) -> Tensor:
    """(N,) int64, distinct neighbours of every node."""
    counts = read["edge_ptr"].diff()
    ends = read["edge_index"][1].long() + torch.repeat_interleave(read["node_ptr"][:-1], counts)
    return torch.bincount(ends, minlength=int(read["node_ptr"][-1]))


def _features(
    read: dict[str, Tensor], level: str, labels: str, with_attributes: bool
) -> tuple[Tensor | None, tuple[int, ...]]:
    columns = []
    if with_attributes and f"{level}_attributes" in read:
        columns.append(read[f"{level}_attributes"])
    label = read.get(f"{level}_labels")
    if label is not None and labels == "category":
        return label, tuple((label.max(0).values + 1).tolist())
    if label is not None:
        columns += [torch.nn.functional.one_hot(column).to(torch.float32) for column in label.unbind(1)]
    return (torch.cat(columns, dim=1) if columns else None), ()
