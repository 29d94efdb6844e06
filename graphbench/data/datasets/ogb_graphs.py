"""ogbg-*: OGB's graph property prediction, from the raw csv files.

Molecules (``ogbg-mol*``), protein associations (``ogbg-ppa``) and syntax trees (``ogbg-code2``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_csv
from graphbench.data.files.roots import Roots
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.vocabulary import TaskType

_URL = "http://snap.stanford.edu/ogb/data/graphproppred"
_PARTS = ("train", "valid", "test")
ATOM_VOCABULARY = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND_VOCABULARY = (5, 6, 2)


@dataclass(frozen=True)
class _Facts:
    """Facts of one set. Counts are those of the official files, edges directed (OGB's own tables count bonds once)."""

    archive: str
    task_type: TaskType
    metric: str
    out_dim: int
    statistics: Mapping[str, float]
    node: tuple[int, ...] = ATOM_VOCABULARY
    edge: tuple[int, ...] = BOND_VOCABULARY
    edge_in: int = 3
    split: str = "scaffold"
    maximize: bool = True
    licence: str = "MIT"


def _molecules(archive: str, metric: str, tasks: int, graphs: int, nodes: int = 0, edges: int = 0) -> _Facts:
    regression = metric == "rmse"
    task_type: TaskType = (
        "regression" if regression else "classification" if tasks == 1 else "classification_multilabel"
    )
    exact = {"graphs": graphs, "nodes": nodes, "edges": edges}
    counted = {name: float(count) for name, count in exact.items() if count}
    return _Facts(f"csv_mol_download/{archive}", task_type, metric, tasks, counted, maximize=not regression)


# Vocabulary of code2 without the marks for "any other word" and "end", and the words that are predicted.
CODE2_WORDS, CODE2_LENGTH = 5000, 5
CODE2_END = CODE2_WORDS + 1
_CODE2_LARGEST, _CODE2_DEEPEST = 1000, 20

FACTS = {
    "ogbg-molbace": _molecules("bace", "auc", 1, 1_513),
    "ogbg-molbbbp": _molecules("bbbp", "auc", 1, 2_039, 49_068, 105_842),
    "ogbg-molclintox": _molecules("clintox", "auc", 2, 1_477),
    "ogbg-molmuv": _molecules("muv", "ap", 17, 93_087),
    "ogbg-molpcba": _molecules("pcba", "ap", 128, 437_929),
    "ogbg-molsider": _molecules("sider", "auc", 27, 1_427, 48_006, 100_912),
    "ogbg-moltox21": _molecules("tox21", "auc", 12, 7_831, 145_459, 302_190),
    "ogbg-moltoxcast": _molecules("toxcast", "auc", 617, 8_576),
    "ogbg-molhiv": _molecules("hiv", "auc", 1, 41_127, 1_049_163, 2_259_376),
    "ogbg-molesol": _molecules("esol", "rmse", 1, 1_128, 14_991, 30_856),
    "ogbg-molfreesolv": _molecules("freesolv", "rmse", 1, 642, 5_600, 10_770),
    "ogbg-mollipo": _molecules("lipophilicity", "rmse", 1, 4_200, 113_568, 247_798),
    "ogbg-molchembl": _molecules("chembl", "auc", 1310, 456_331),
    "ogbg-ppa": _Facts(
        "ogbg_ppi_medium",
        "classification",
        "accuracy",
        37,
        {"graphs": 158_100, "nodes_per_graph": 243.4, "edges_per_graph": 2 * 2_266.1},
        node=(1,),
        edge=(),
        edge_in=7,
        split="species",
        licence="CC0",
    ),
    "ogbg-code2": _Facts(
        "code2",
        "subtoken_prediction",
        "f1",
        CODE2_WORDS + 2,
        {"graphs": 452_741},
        node=(98, 10_030, _CODE2_DEEPEST + 1),
        edge=(2, 2),
        edge_in=2,
        split="project",
    ),
}


class OGBGraphs(DatasetBuilder):
    """Graph property prediction of OGB.

    Paper: Open Graph Benchmark, https://arxiv.org/abs/2005.00687.

    Molecules: 9 atom and 3 bond columns; targets of several tasks are 0, 1 or NaN (not measured). ppa: every node the
    category 0, 7 numbers per edge. code2: node columns are type, attribute and depth (at most 20), edge columns are
    "next token instead of syntax" and "reversed"; trees are cut at 1,000 nodes.

    Targets of code2 are the words of the name, as :mod:`graphbench.tasks.targets` describes them: the 5,000 most
    frequent words of the training part are 0 .. 4,999, 5,000 stands for any other word in a prediction, 5,001 ends a
    name and fills its row, and every other word has a number of its own after that.

    Split: ``standard``, OGB's own (by scaffold, species, project). The folder of a set may also lie directly below a
    data root, as GraphGPS has it.

    Args:
        name: ``ogbg-...``; an underscore may replace the hyphen.
    """

    names = tuple(FACTS)
    offered_by: ClassVar = {"OGB": {name: name for name in names}}

    def __init__(self, name: str) -> None:
        super().__init__(name.replace("_", "-"))

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        facts = FACTS[self.name]
        vocabularies = {"node": facts.node, "edge": facts.edge}
        return DatasetCard(
            name=self.name,
            task="graph",
            task_type=facts.task_type,
            metric=facts.metric,
            maximize=facts.maximize,
            node_in=len(facts.node),
            edge_in=facts.edge_in,
            out_dim=facts.out_dim,
            vocabularies={level: sizes for level, sizes in vocabularies.items() if sizes},
            split_counts={"standard": 1},
            statistics=facts.statistics,
            licence=facts.licence,
            source="https://ogb.stanford.edu/docs/graphprop",
            files=tuple(f"{self._folder}/{file}" for file in self._files),
        )

    @property
    def _url(self) -> str:
        return f"{_URL}/{FACTS[self.name].archive}.zip"

    @property
    def _folder(self) -> str:
        return f"ogb/{self.name.replace('-', '_')}"

    @property
    def _files(self) -> list[str]:
        raw = ["edge", "num-node-list", "num-edge-list", "graph-label"]
        raw += {"ogbg-ppa": ["edge-feat"], "ogbg-code2": ["node-feat", "node_depth", "node_is_attributed"]}.get(
            self.name, ["node-feat", "edge-feat"]
        )
        return [f"raw/{table}.csv.gz" for table in raw] + self._split_files

    @property
    def _split_files(self) -> list[str]:
        return [f"split/{FACTS[self.name].split}/{part}.csv.gz" for part in _PARTS]

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card, folder = self.card, self._raw(roots)
        files = [folder / file for file in self._files]
        reader = {"ogbg-ppa": _read_associations, "ogbg-code2": _read_trees}.get(self.name, self._read_molecules)

        def read() -> tuple[GraphStore, Splits]:
            splits = Splits.of(*(read_csv(folder / file, may_be_empty=True).reshape(-1) for file in self._split_files))
            return reader(folder / "raw", splits), splits

        store, splits = cached_graphs(roots, "OGB", self.name, files, read)
        card.check(store, str(folder))
        return LoadedDataset(store, card, {"standard": (splits,)})

    def _raw(self, roots: Roots) -> Path:
        """The folder of the set: below ``ogb``, or directly below a root, where GraphGPS puts it."""
        plain = Path(self._folder).name
        root = roots.find(*(f"{plain}/{file}" for file in self._files))
        if root is not None:
            return root / plain
        files = self.card.files
        return roots.require(self.name, files, dict.fromkeys(files, self._url), fetch=self._fetch) / self._folder

    def _fetch(self, directory: Path) -> None:
        download_archive(self._url, directory / self._folder, strip=1)

    def _read_molecules(self, raw: Path, splits: Splits) -> GraphStore:
        nodes, edges, edge_index = _graphs(raw, both_directions=True)
        y = read_csv(raw / "graph-label.csv.gz")
        single = FACTS[self.name].task_type == "classification"
        return GraphStore.from_arrays(
            nodes,
            edges,
            edge_index,
            x=read_csv(raw / "node-feat.csv.gz").astype(np.uint8),
            edge_attr=np.repeat(
                read_csv(raw / "edge-feat.csv.gz", may_be_empty=True).reshape(-1, 3).astype(np.uint8), 2, axis=0
            ),
            y=y[:, 0].astype(np.int64) if single else y.astype(np.float32),
        )


def _graphs(raw: Path, both_directions: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes and edges per graph, and the edges; OGB stores one direction and inserts the reverse right after it."""
    nodes, edges = (read_csv(raw / f"num-{level}-list.csv.gz")[:, 0].astype(np.int64) for level in ("node", "edge"))
    index = read_csv(raw / "edge.csv.gz", may_be_empty=True).reshape(-1, 2).astype(np.int32).T
    if not both_directions:
        return nodes, edges, index
    index = np.repeat(index, 2, axis=1)
    index[:, 1::2] = index[::-1, 1::2]
    return nodes, 2 * edges, index


def _read_associations(raw: Path, splits: Splits) -> GraphStore:
    nodes, edges, edge_index = _graphs(raw, both_directions=True)
    return GraphStore.from_arrays(
        nodes,
        edges,
        edge_index,
        x=np.zeros((int(nodes.sum()), 1), dtype=np.uint8),
        edge_attr=np.repeat(read_csv(raw / "edge-feat.csv.gz", may_be_empty=True).astype(np.float32), 2, axis=0),
        y=read_csv(raw / "graph-label.csv.gz")[:, 0].astype(np.int64),
    )


# ---------------------------------------------------------------------- syntax trees


def _read_trees(raw: Path, splits: Splits) -> GraphStore:
    nodes, edges, edge_index = _graphs(raw, both_directions=False)
    features = [read_csv(raw / f"{name}.csv.gz").astype(np.int32) for name in ("node-feat", "node_depth")]
    x = np.concatenate([features[0][:, :2], np.minimum(features[1][:, :1], _CODE2_DEEPEST)], axis=1)
    position = np.arange(len(x)) - np.repeat(np.cumsum(nodes) - nodes, nodes)
    kept = position < _CODE2_LARGEST
    has_token = (read_csv(raw / "node_is_attributed.csv.gz")[:, 0] == 1) & kept
    graph = np.repeat(np.arange(len(nodes)), nodes)
    counts, edge_index, edge_attr = _tree_edges(
        np.repeat(np.arange(len(edges)), edges), edge_index, graph[has_token], position[has_token], len(nodes)
    )
    return GraphStore.from_arrays(
        np.minimum(nodes, _CODE2_LARGEST), counts, edge_index, x=x[kept], edge_attr=edge_attr, y=_names(raw, splits)
    )


def _tree_edges(
    graph: np.ndarray, syntax: np.ndarray, token_graph: np.ndarray, token: np.ndarray, graphs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Syntax edges, and edges from nodes with a token to the next such node in depth-first order; all both ways."""
    inside = (syntax < _CODE2_LARGEST).all(0)
    graph, syntax = graph[inside], syntax[:, inside]
    follows = token_graph[1:] == token_graph[:-1]
    next_token = np.stack([token[:-1], token[1:]])[:, follows]
    next_graph = token_graph[1:][follows]
    owner = np.concatenate([graph, graph, next_graph, next_graph])
    ends = np.concatenate([syntax, syntax[::-1], next_token, next_token[::-1]], axis=1)
    columns = np.array([(0, 0), (0, 1), (1, 0), (1, 1)], dtype=np.uint8)  # next token, reversed
    edge_attr = np.repeat(columns, [len(graph), len(graph), len(next_graph), len(next_graph)], axis=0)
    order = np.argsort(owner, kind="stable")
    edge_index = ends[:, order].astype(np.int32)
    return np.bincount(owner, minlength=graphs), edge_index, edge_attr[order]


def _names(raw: Path, splits: Splits) -> Tensor:
    names = [str(name).split(" ") for name in read_csv(raw / "graph-label.csv.gz")[:, 0]]
    return encode_names(names, splits.check(len(names), f"{raw}: the split of the trees").train.tolist())


def encode_names(names: Sequence[Sequence[str]], train: Sequence[int]) -> Tensor:
    """Function names as rows of word numbers, see :class:`OGBGraphs`.

    Args:
        names: sub-tokens of every name.
        train: numbers of the training examples, which decide what is frequent (ties: what comes first).
    """
    frequent = Counter(word for number in train for word in names[number]).most_common(CODE2_WORDS)
    numbers = {word: number for number, (word, _) in enumerate(frequent)}
    width = max([CODE2_LENGTH, *(len(name) for name in names)])
    rows = np.full((len(names), width), CODE2_END, dtype=np.int32)
    for row, name in zip(rows, names, strict=True):
        row[: len(name)] = [numbers.setdefault(word, CODE2_END + 1 + len(numbers)) for word in name]
    return torch.from_numpy(rows)
