"""Clusters of nodes with few edges between them, for Cluster-GCN (https://arxiv.org/abs/1905.07953)."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from graphbench.data.files.tensor_cache import cached_tensors
from graphbench.data.store import GraphStore

if TYPE_CHECKING:
    import scipy.sparse as sp  # where it is used: every configuration passes this module, and few are clustered

logger = logging.getLogger("graphbench")

Method = Literal["auto", "metis", "rcm"]
NAMES = {True: "METIS", False: "reverse Cuthill-McKee order"}


@dataclass(frozen=True, eq=False)
class Clusters:
    """Disjoint clusters of all nodes.

    Attributes:
        number: (N,) int32, the cluster of every node.
        count: K.
        method: method that found them, in words.
        cut: fraction of the edges (self loops aside) that join two clusters.
    """

    number: Tensor
    count: int
    method: str
    cut: float

    @property
    def described(self) -> str:
        """Number, method and quality, for logs and records."""
        return f"{self.count:,} clusters by {self.method}, {self.cut:.1%} of the edges between them"

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, count: int, *, method: Method = "auto", seed: int = 0) -> Clusters:
        """Clusters of about equal size; every node is reached along edges in either direction.

        ``metis`` minimises the edges cut by multilevel k-way partitioning (pymetis; METIS, Karypis and Kumar 1998).
        ``rcm``, which needs no further library, cuts the reverse Cuthill-McKee order of the nodes (SciPy) into equal
        pieces: neighbours in that order are close in the graph, but many more edges are cut. ``auto`` is METIS where
        it is installed, and says so in the log where it is not.

        Args:
            edge_index: (2, E) integer.
            num_nodes: N.
            count: K clusters.
            method: see above.
            seed: seed of METIS.

        Raises:
            ValueError: K out of range, an unknown method, or METIS asked for and not installed.
        """
        metis = uses_metis(method)
        if not 1 <= count <= num_nodes:
            raise ValueError(f"train.train_parts must lie in 1 .. {num_nodes} for {num_nodes} nodes; received {count}")
        graph = _undirected(edge_index, num_nodes)
        number = _metis(graph, count, seed) if metis else _pieces(graph, count)
        source, target = graph.nonzero()
        cut = float((number[source] != number[target]).mean()) if len(source) else 0.0
        return cls(torch.from_numpy(number), count, NAMES[metis], cut)

    @classmethod
    def cached(cls, cache: Path, store: GraphStore, count: int, *, method: Method = "auto", seed: int = 0) -> Clusters:
        """:meth:`of` the graph of a store, computed once for the same graph, number, method and seed.

        Args:
            cache: folder of all caches.
            store: one graph; its fingerprint is part of the address.
            count: K clusters.
            method: see :meth:`of`.
            seed: seed of METIS, which alone depends on it.
        """
        metis = uses_metis(method)
        key = {
            "version": 1,
            "store": store.fingerprint,
            "count": count,
            "method": NAMES[metis],
            "library": [importlib.metadata.version("pymetis"), seed] if metis else importlib.metadata.version("scipy"),
        }

        def compute() -> dict[str, Tensor]:
            found = cls.of(store.edge_index, store.num_nodes, count, method=method, seed=seed)
            return {"number": found.number, "cut": torch.tensor([found.cut], dtype=torch.float64)}

        tensors = cached_tensors(cache / "clusters", f"{count}-clusters", key, compute)
        return cls(tensors["number"], count, NAMES[metis], float(tensors["cut"]))


def uses_metis(method: Method) -> bool:
    """Whether a method stands for METIS here; where it does not although it was asked for, the log says so.

    Raises:
        ValueError: an unknown method, or METIS asked for and not installed.
    """
    if method not in get_args(Method):
        raise ValueError(f"train.clustering must be one of {', '.join(get_args(Method))}; received {method!r}")
    installed = importlib.util.find_spec("pymetis") is not None
    if method == "metis" and not installed:
        raise ValueError(
            "train.clustering metis needs pymetis: pip install 'graphbench-gt[clusters]'; rcm needs nothing"
        )
    if method == "auto" and not installed:
        logger.warning(
            "pymetis is not installed (pip install 'graphbench-gt[clusters]'): clusters are pieces of the reverse "
            "Cuthill-McKee order, between which there are more edges than between those of METIS"
        )
    return installed and method != "rcm"


def _undirected(edge_index: Tensor, num_nodes: int) -> sp.csr_array:
    """The graph without directions, multiplicities and self loops."""
    import scipy.sparse as sp

    source, target = (end.numpy().astype(np.int64 if num_nodes >= 2**31 else np.int32) for end in edge_index)
    away = source != target
    source, target = source[away], target[away]
    ones = np.ones(len(source), dtype=bool)
    directed = sp.csr_array((ones, (source, target)), shape=(num_nodes, num_nodes))
    return (directed + directed.T).tocsr()


def _metis(graph: sp.csr_array, count: int, seed: int) -> np.ndarray:
    import pymetis

    options = pymetis.Options(seed=seed % 2**31)
    # Few parts by bisection, as METIS advises; that is what pymetis does when it is not told.
    _, number = pymetis.part_graph(count, pymetis.CSRAdjacency(graph.indptr, graph.indices), options=options)
    return np.asarray(number, dtype=np.int32)


def _pieces(graph: sp.csr_array, count: int) -> np.ndarray:
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    nodes = graph.shape[0]
    number = np.empty(nodes, dtype=np.int32)
    number[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(nodes, dtype=np.int64) * count // nodes
    return number
