"""Amazon, Coauthor and CitationFull: co-purchase, co-author and citation graphs in the sparse ``.npz`` form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.edge_lists import to_undirected, without_self_loops
from graphbench.data.files.raw_files import read_npz, reading
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts, node_card, node_store, prepared
from graphbench.data.sparse_features import sparse_rows
from graphbench.data.splits import SplitRequest, Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.registry import FromContext, register

_GNN_BENCHMARK = "https://github.com/shchur/gnn-benchmark"
_GRAPH2GAUSS = "https://github.com/abojchevski/graph2gauss"


class _SparseArrays(DatasetBuilder):
    """One undirected graph without self loops; 0/1 features. No split is published with it.

    ``standard`` is the split that the Exphormer release draws: a seeded permutation whose first two pieces are val
    and test; it takes the training fraction from ``dataset.split``.
    """

    drawn_sizes = (0.6, 0.2, 0.2)
    name: str
    source: str
    facts: ClassVar[Mapping[str, NodeFacts]]
    title: str
    file: str

    def __init__(self, name: str, *, normalize_features: bool, add_reverse_edges: bool, add_self_loops: bool) -> None:
        super().__init__(name)
        self.normalize_features = normalize_features
        self.add_reverse_edges, self.add_self_loops = add_reverse_edges, add_self_loops

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        return node_card(self.title, self.facts[self.name], licence="MIT", source=self.source, files=(self.file,))

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw file."""
        card = self.card
        directory = "data/npz" if self.source == _GNN_BENCHMARK else "data"
        url = f"{self.source}/raw/master/{directory}/{Path(self.file).name}"
        root = roots.require(card.name, card.files, {self.file: url}, card.sha256)
        store = _read(root / self.file)
        card.check(store, str(root / self.file))
        store = prepared(
            store,
            normalize_features=self.normalize_features,
            add_reverse_edges=self.add_reverse_edges,
            add_self_loops=self.add_self_loops,
        )
        return LoadedDataset(store, card, {"standard": drawn_split})


class _GnnBenchmark(_SparseArrays):
    """The collections of Pitfalls of Graph Neural Network Evaluation, https://arxiv.org/abs/1811.05868.

    Args:
        name: key of ``facts`` and ``files``.
        normalize_features: divide every row of the features by its sum.
        add_reverse_edges: list every edge a second time (the Exphormer release does).
        add_self_loops: append a self loop for every node that has an edge.
    """

    source = _GNN_BENCHMARK
    files: ClassVar[Mapping[str, str]]

    def __init__(
        self,
        name: FromContext[str],
        *,
        normalize_features: bool = False,
        add_reverse_edges: FromContext[bool] = False,
        add_self_loops: FromContext[bool] = False,
    ) -> None:
        super().__init__(
            name.lower(),
            normalize_features=normalize_features,
            add_reverse_edges=add_reverse_edges,
            add_self_loops=add_self_loops,
        )
        self.file = self.files[self.name]
        self.title = "-".join(Path(self.file).parts[:2])


@register("PyG-Amazon")
class Amazon(_GnnBenchmark):
    """Products bought together. Paper: Pitfalls of Graph Neural Network Evaluation, https://arxiv.org/abs/1811.05868.

    Args:
        name: ``computers`` or ``photo``; the others as :class:`_GnnBenchmark`.
    """

    names = ("computers", "photo")
    offered_by: ClassVar = {"PyG": {"AmazonComputers": "computers", "AmazonPhoto": "photo"}}
    facts: ClassVar[Mapping[str, NodeFacts]] = {
        "computers": NodeFacts(13752, 491722, 767, 10),
        "photo": NodeFacts(7650, 238162, 745, 8),
    }
    files: ClassVar[Mapping[str, str]] = {
        "computers": "Amazon/Computers/raw/amazon_electronics_computers.npz",
        "photo": "Amazon/Photo/raw/amazon_electronics_photo.npz",
    }


@register("PyG-Coauthor")
class Coauthor(_GnnBenchmark):
    """Authors of common papers. Paper: Pitfalls of Graph Neural Network Evaluation, https://arxiv.org/abs/1811.05868.

    Args:
        name: ``cs`` or ``physics``; the others as :class:`_GnnBenchmark`.
    """

    names = ("cs", "physics")
    offered_by: ClassVar = {"PyG": {"CoauthorCS": "cs", "CoauthorPhysics": "physics"}}
    facts: ClassVar[Mapping[str, NodeFacts]] = {
        "cs": NodeFacts(18333, 163788, 6805, 15),
        "physics": NodeFacts(34493, 495924, 8415, 5),
    }
    files: ClassVar[Mapping[str, str]] = {
        "cs": "Coauthor/CS/raw/ms_academic_cs.npz",
        "physics": "Coauthor/Physics/raw/ms_academic_phy.npz",
    }


@register("PyG-CitationFull")
class CitationFull(_SparseArrays):
    """The full citation graphs. Paper: Deep Gaussian Embedding of Graphs, https://arxiv.org/abs/1707.03815.

    Args:
        name: ``Cora``, ``Cora_ML``, ``CiteSeer``, ``DBLP`` or ``PubMed``.
        normalize_features: divide every row of the features by its sum.
    """

    names = ("cora", "cora_ml", "citeseer", "dblp", "pubmed")
    source = _GRAPH2GAUSS
    facts: ClassVar[Mapping[str, NodeFacts]] = {
        "cora": NodeFacts(19793, 126842, 8710, 70),
        "cora_ml": NodeFacts(2995, 16316, 2879, 7),
        "citeseer": NodeFacts(4230, 10674, 602, 6),
        "dblp": NodeFacts(17716, 105734, 1639, 4),
        "pubmed": NodeFacts(19717, 88648, 500, 3),
    }

    def __init__(self, name: FromContext[str], *, normalize_features: bool = False) -> None:
        super().__init__(
            name.lower(), normalize_features=normalize_features, add_reverse_edges=False, add_self_loops=False
        )
        self.title = f"{name}-Full"
        self.file = f"CitationFull/{self.name}/raw/{self.name}.npz"


def drawn_split(request: SplitRequest) -> Splits:
    """The random split of the Exphormer release: with the same seed, the very nodes it draws.

    Args:
        request: ``sizes[0]`` is the fraction that trains (default 0.6); the rest is halved.

    Raises:
        UserError: the fraction lies outside 0 .. 1.
    """
    fraction = (request.sizes or _SparseArrays.drawn_sizes)[0]
    if not isinstance(fraction, int | float) or not 0 < fraction < 1:
        raise UserError(
            f"dataset.split must begin with the fraction that trains, between 0 and 1, received {fraction!r}."
        )
    order = torch.randperm(request.num_examples, generator=torch.Generator().manual_seed(request.seed))
    held = int(request.num_examples * (1 - fraction) / 2)
    return Splits.of(order[2 * held :], order[:held], order[held : 2 * held])


def _read(path: Path) -> GraphStore:
    """Two sparse matrices in CSR parts, ``adj_*`` and ``attr_*``, and ``labels``."""
    names = [f"{matrix}_{part}" for matrix in ("adj", "attr") for part in ("data", "indices", "indptr", "shape")]
    *parts, labels = read_npz(path, *names, "labels")
    with reading(path):
        adjacency, features = (sparse.csr_matrix(tuple(csr[:3]), csr[3]) for csr in (parts[:4], parts[4:]))
        for matrix in (adjacency, features):
            matrix.check_format(full_check=True)
        source, target = adjacency.tocoo().coords
        listed = torch.from_numpy(np.stack([source, target]).astype(np.int64))
        x, y = sparse_rows(features > 0), labels.astype(np.int64)
        return node_store(x, to_undirected(without_self_loops(listed), len(y)), y)
