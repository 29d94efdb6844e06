"""Actor, WebKB and WikipediaNetwork: one directed web graph each, in the text form and with the splits of Geom-GCN."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.datasets.heterophilous import read_masked_npz
from graphbench.data.edge_lists import coalesce
from graphbench.data.files.raw_files import reading
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts, node_card, node_store, prepared
from graphbench.data.sparse_features import sparse_rows
from graphbench.data.splits import read_mask_files
from graphbench.data.store import GraphStore
from graphbench.registry import FromContext, register
from graphbench.structures import SparseRows

_URL = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master"
_SPLITS = 10
_NODES, _EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"

_FACTS = {
    "film": NodeFacts(7600, 30019, 932, 5),
    "cornell": NodeFacts(183, 298, 1703, 5),
    "texas": NodeFacts(183, 325, 1703, 5),
    "wisconsin": NodeFacts(251, 515, 1703, 5),
    "chameleon": NodeFacts(2277, 36101, 2325, 5),
    "squirrel": NodeFacts(5201, 217073, 2089, 5),
}
_SHA256 = {
    "film": (
        "1d5cdd094f8b91e770f6decfca85b35cf42f75d1efb51055fd6af16e11820ff8",
        "997cdce67ea9c29257d3ffe796328391931901cf823830affa453178b60e2c3e",
    ),
    "chameleon": (
        "5fd29736ff31b43a1bfcf305bc8b4cffc3103fb0957667976b2ea0f78aedcf5b",
        "45ac593de9207470090230c8fd76beeb2f60b5371a9be088e8bf31e7f0619a4b",
    ),
    "squirrel": (
        "ac15ab755983717a187992eef8ce2017aae33ea444fd655b07e4662690dcc03a",
        "453d8e96754d68e2ab0a7ebb56f93506b59531d95abaec7a2b46fe1eae7c39cd",
    ),
}


class _GeomGCN(DatasetBuilder):
    """One graph with ten published splits (48/32/20 %), which ``dataset.split_index`` chooses from."""

    title: str
    source_name: str
    folder: str
    features: ClassVar[str] = "values"

    def __init__(self, name: str, *, normalize_features: bool, undirected: bool) -> None:
        super().__init__(name)
        self.normalize_features, self.undirected = normalize_features, undirected

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        files = (_NODES, _EDGES, *(f"{self.source_name}_split_0.6_0.2_{number}.npz" for number in range(_SPLITS)))
        sha256 = dict(zip(files, _SHA256.get(self.source_name, ()), strict=False))
        return node_card(
            self.title,
            _FACTS[self.source_name],
            split_counts={"standard": _SPLITS},
            source="https://github.com/graphdml-uiuc-jlu/geom-gcn",
            files=tuple(f"{self.folder}/{file}" for file in files),
            sha256={f"{self.folder}/{file}": value for file, value in sha256.items()},
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files and the splits."""
        card = self.card
        folders = [f"new_data/{self.source_name}"] * 2 + ["splits"] * _SPLITS
        names = [Path(file).name for file in card.files]
        urls = {file: f"{_URL}/{where}/{name}" for file, where, name in zip(card.files, folders, names, strict=True)}
        root = roots.require(card.name, card.files, urls, card.sha256)
        store = _read(root / card.files[0], root / card.files[1], self.features)
        card.check(store, str(root / self.folder))
        store = prepared(store, normalize_features=self.normalize_features, undirected=self.undirected)
        return LoadedDataset(store, card, {"standard": read_mask_files([root / file for file in card.files[2:]])})


@register("PyG-Actor")
class Actor(_GeomGCN):
    """Actors who share a Wikipedia page. Paper: Geom-GCN, https://openreview.net/forum?id=S1e2agrFvS.

    Args:
        name: ``none``: there is one such graph.
        normalize_features: divide every row of the features by its sum.
        undirected: add the missing reverse edges.
    """

    names = ("none", "Actor")
    title, source_name, folder = "Actor", "film", "Actor/raw"
    features = "positions"  # of the words that occur

    def __init__(
        self, name: FromContext[str] = "none", *, normalize_features: bool = False, undirected: bool = False
    ) -> None:
        super().__init__(name, normalize_features=normalize_features, undirected=undirected)


@register("PyG-WebKB")
class WebKB(_GeomGCN):
    """Pages of three computer science departments. Paper: Geom-GCN, https://openreview.net/forum?id=S1e2agrFvS.

    The released files of ``cornell`` and ``texas`` hold the same features and labels, byte for byte; only their edges
    and splits differ.

    Args:
        name: ``cornell``, ``texas`` or ``wisconsin``.
        normalize_features: divide every row of the features by its sum.
        undirected: add the missing reverse edges.
    """

    names = ("cornell", "texas", "wisconsin")

    def __init__(self, name: FromContext[str], *, normalize_features: bool = False, undirected: bool = False) -> None:
        super().__init__(name.lower(), normalize_features=normalize_features, undirected=undirected)
        self.source_name = self.name
        self.title, self.folder = self.source_name.capitalize(), f"WebKB/{self.source_name}/raw"


_FILTERED_URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
_FILTERED = {
    "chameleon_filtered": NodeFacts(890, 17708, 2325, 5),
    "squirrel_filtered": NodeFacts(2223, 93996, 2089, 5),
    "chameleon_filtered_directed": NodeFacts(890, 13584, 2325, 5),
    "squirrel_filtered_directed": NodeFacts(2223, 65718, 2089, 5),
}
_FILTERED_SHA256 = {
    "chameleon_filtered": "bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
    "squirrel_filtered": "f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7",
    "chameleon_filtered_directed": "5a2d40701407188f1661d37a326484b49cc15251e0dedaa7bd380873dac80f21",
    "squirrel_filtered_directed": "0526e53252f0b052124f7390829c32e923d432acaf64206191a1144a07b39620",
}


@register("PyG-WikipediaNetwork")
class WikipediaNetwork(_GeomGCN):
    """Wikipedia pages in five classes of traffic. Paper: https://arxiv.org/abs/1909.13021, classes of Geom-GCN.

    The filtered graphs leave out nodes that occur twice, whose labels leak from train to test
    (https://arxiv.org/abs/2302.11640); they are other data sets, with splits of their own.

    Args:
        name: ``chameleon``, ``squirrel``, ``chameleon_filtered``, ``squirrel_filtered`` (undirected), or one of the
            latter with ``_directed``.
        normalize_features: divide every row of the features by its sum.
        undirected: add the missing reverse edges.
    """

    names = ("chameleon", "squirrel", *_FILTERED)

    def __init__(self, name: FromContext[str], *, normalize_features: bool = False, undirected: bool = False) -> None:
        super().__init__(name.lower(), normalize_features=normalize_features, undirected=undirected)
        self.title, self.source_name = self.name.capitalize(), self.name
        self.folder = f"WikipediaNetwork/{self.name}/geom_gcn/raw"

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        if self.name not in _FILTERED:
            return super().card
        file = f"heterophilous_filtered/{self.name}.npz"
        return node_card(
            self.title,
            _FILTERED[self.name],
            split_counts={"standard": _SPLITS},
            licence="MIT",
            source="https://github.com/yandex-research/heterophilous-graphs",
            files=(file,),
            sha256={file: _FILTERED_SHA256[self.name]},
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files and the splits."""
        if self.name not in _FILTERED:
            return super().load(roots)
        card = self.card
        (file,) = card.files
        root = roots.require(card.name, card.files, {file: f"{_FILTERED_URL}/{self.name}.npz"}, card.sha256)
        store, splits = read_masked_npz(root / file, undirected="directed" not in self.name)
        card.check(store, str(root / file))
        store = prepared(store, normalize_features=self.normalize_features, undirected=self.undirected)
        return LoadedDataset(store, card, {"standard": splits})


def _read(nodes: Path, edges: Path, features: str) -> GraphStore:
    """Tab-separated text: ``number, features, label`` per node; ``source, target`` per edge; a heading each."""
    with reading(nodes, edges):
        rows = [line.split("\t") for line in nodes.read_text(encoding="ascii").splitlines()[1:]]
        number = np.array([int(row[0]) for row in rows])
        lists = [np.fromstring(row[1], dtype=np.int64, sep=",") for row in rows]
        y = np.empty(len(rows), dtype=np.int64)
        y[number] = [int(row[2]) for row in rows]
        if features == "positions":
            column, row = np.concatenate(lists), np.repeat(number, [len(columns) for columns in lists])
            listed = sparse.coo_array((np.ones(len(row)), (row, column)), shape=(len(rows), column.max() + 1))
            x: SparseRows | np.ndarray = sparse_rows(listed.tocsr() > 0)  # a word may be listed twice
        else:
            x = np.stack(lists)[np.argsort(number)].astype(np.float32)
        pairs = np.loadtxt(edges, dtype=np.int64, delimiter="\t", skiprows=1, ndmin=2)
        edge_index = coalesce(torch.from_numpy(pairs.T.copy()), len(rows))
        return node_store(x, edge_index, y)
