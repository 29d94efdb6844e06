"""Overlapping patches of a graph: He et al., A Generalization of ViT/MLP-Mixer to Graphs, arXiv 2212.13350."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.errors import UserError, check_at_least, check_one_of
from graphbench.registry import register
from graphbench.transforms.base import Level, Transform

METHODS = ("bisection", "metis")


class _Partitioned(Transform):
    """Base of the two transforms: a partition into patches, each extended by the nodes within some hops.

    Edges count in both directions. A graph with fewer nodes than patches has one patch per node; patches that a graph
    does not fill are the first ones.

    Args:
        patches: P.
        hops: by which patches are extended.
        method: ``bisection``: halves of halves, each the first nodes of a breadth-first search; ``metis``: METIS's
            recursive bisection, by the package pymetis.
    """

    level: Level = "edge_set"

    def __init__(self, patches: int = 32, hops: int = 1, method: Literal["bisection", "metis"] = "bisection") -> None:
        check_at_least(1, patches=patches)
        check_at_least(0, hops=hops)
        check_one_of(METHODS, method=method)
        self.patches, self.hops, self.method = patches, hops, method

    def members(self, store: GraphStore) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Per graph the edges (2, m) int64 and which node is in which patch, (P, n) bool."""
        index, node_ptr, edge_ptr = store.edge_index.numpy(), store.node_ptr.tolist(), store.edge_ptr.tolist()
        for graph in range(store.num_graphs):
            edges = index[:, edge_ptr[graph] : edge_ptr[graph + 1]].astype(np.int64)
            size = node_ptr[graph + 1] - node_ptr[graph]
            joined = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(size, size))
            yield edges, self._extended((joined + joined.T).tocsr(), size)

    def _extended(self, adjacency: sp.csr_array, size: int) -> np.ndarray:
        part = np.arange(size) if size < self.patches else self._partition(adjacency, size)
        part = part + (self.patches - 1 - part.max(initial=0))
        inside = np.zeros((self.patches, size), dtype=bool)
        inside[part, np.arange(size)] = True
        for _ in range(self.hops if size else 0):
            inside |= (adjacency @ inside.T).T > 0
        return inside

    def _partition(self, adjacency: sp.csr_array, size: int) -> np.ndarray:
        plain = adjacency - sp.diags_array(adjacency.diagonal())
        plain.eliminate_zeros()
        if self.method == "metis":
            return _by_metis(plain.tocsr(), self.patches)
        part = np.zeros(size, dtype=np.int64)
        _bisect(plain.tocsr(), np.arange(size), 0, self.patches, part)
        return part


@register("Patches")
class Patches(_Partitioned):
    """Which nodes are in which patch; arguments as above.

    Returns:
        ``index`` (2, M) int32 the node of every membership, twice, ``ptr`` (G+1,), and ``attr`` (M,) int64 its patch,
        by graph, patch and node.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("index", "ptr", "attr")

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Memberships of all graphs of a store."""
        found = [np.nonzero(inside) for _, inside in self.members(store)]
        patch, node = (np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*found)) if found else _NONE
        counts = [len(nodes) for _, nodes in found]
        return _edge_set(np.stack([node, node]), counts, patch)


@register("PatchEdges")
class PatchEdges(_Partitioned):
    """The edges inside every patch; arguments as above.

    Returns:
        ``index`` (2, M) int32 source and target of every edge in a patch, ``ptr`` (G+1,), and ``attr`` (M, 3) int64:
        the number of the edge inside its graph, and those of its two ends among the memberships of ``Patches``.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("index", "ptr", "attr")

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Edges in the patches of all graphs of a store."""
        ends, facts, counts = [np.empty((2, 0), np.int64)], [np.empty((0, 3), np.int64)], []
        for edges, inside in self.members(store):
            number = np.cumsum(inside.ravel()).reshape(inside.shape) - 1
            patch, edge = np.nonzero(inside[:, edges[0]] & inside[:, edges[1]])
            source, target = edges[:, edge]
            ends.append(np.stack([source, target]))
            facts.append(np.stack([edge, number[patch, source], number[patch, target]], axis=1))
            counts.append(len(edge))
        return _edge_set(np.concatenate(ends, axis=1), counts, np.concatenate(facts))


_NONE = (np.empty(0, np.int64), np.empty(0, np.int64))


def _edge_set(index: np.ndarray, counts: list[int], attr: np.ndarray) -> dict[str, Tensor]:
    ptr = torch.tensor([0, *counts]).cumsum(0)
    return {"index": torch.from_numpy(index.astype(np.int32)), "ptr": ptr, "attr": torch.from_numpy(attr)}


def _bisect(adjacency: sp.csr_array, nodes: np.ndarray, first: int, patches: int, part: np.ndarray) -> None:
    """Writes the numbers ``first`` .. ``first + patches - 1`` of the parts of some nodes."""
    if patches == 1 or len(nodes) < 2:
        part[nodes] = first
        return
    left = patches // 2
    order = _search_order(adjacency[nodes][:, nodes])
    cut = round(len(nodes) * left / patches)
    _bisect(adjacency, nodes[order[:cut]], first, left, part)
    _bisect(adjacency, nodes[order[cut:]], first + left, patches - left, part)


def _search_order(adjacency: sp.csr_array) -> np.ndarray:
    """(n,) nodes in the order of breadth-first searches, each from the last node that another search reaches."""
    seen = np.zeros(adjacency.shape[0], dtype=bool)
    orders = []
    for node in range(len(seen)):
        if not seen[node]:
            end = sp.csgraph.breadth_first_order(adjacency, node, directed=False, return_predecessors=False)[-1]
            order = sp.csgraph.breadth_first_order(adjacency, end, directed=False, return_predecessors=False)
            seen[order] = True
            orders.append(order)
    return np.concatenate(orders)


def _by_metis(adjacency: sp.csr_array, patches: int) -> np.ndarray:
    try:
        import pymetis
    except ImportError as error:
        raise UserError(
            "method metis needs pymetis: pip install 'graphbench-gt[patches]', or choose bisection"
        ) from error
    neighbors = [adjacency.indices[a:b] for a, b in zip(adjacency.indptr, adjacency.indptr[1:])]
    return np.asarray(pymetis.part_graph(patches, adjacency=neighbors, recursive=True)[1])
