"""Overlapping patches of a graph: He et al., A Generalization of ViT/MLP-Mixer to Graphs, arXiv 2212.13350."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from graphbench.errors import UserError, check_at_least, check_one_of
from graphbench.registry import register
from graphbench.transforms.algorithms.substructures import Part
from graphbench.transforms.cell_complex import PartTransform

METHODS = ("bisection", "metis")


class _Partitioned(PartTransform):
    """Base of the two transforms: a partition into patches, each extended by the nodes within some hops.

    Edges count in both directions. A graph with fewer nodes than patches has one patch per node; patches that a graph
    does not fill are the first ones.

    Args:
        patches: P.
        hops: number of hops by which patches are extended.
        method: ``bisection``: halves of halves, each the first nodes of a breadth-first search; ``metis``: METIS's
            recursive bisection, by the package pymetis.
    """

    attr_type = np.int64

    def __init__(self, patches: int = 32, hops: int = 1, method: Literal["bisection", "metis"] = "bisection") -> None:
        check_at_least(1, patches=patches)
        check_at_least(0, hops=hops)
        check_one_of(METHODS, method=method)
        self.patches, self.hops, self.method = patches, hops, method

    def members(self, part: Part) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per graph the edges (2, m) int64 and which node is in which patch, (P, n) bool."""
        return part.derived(_members, self.patches, self.hops, self.method)


@register("Patches")
class Patches(_Partitioned):
    """Nodes of every patch.

    Returns:
        ``index`` (2, M) int32 the node of every membership, twice, ``ptr`` (G+1,), and ``attr`` (M,) int64 its patch,
        by graph, patch and node.
    """

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes, patches, and memberships per graph."""
        found = [np.argwhere(inside) for _, inside in self.members(part)]
        patch, node = np.concatenate([np.empty((0, 2), np.int64), *found]).T
        return np.stack([node, node], axis=1), patch, np.array([len(rows) for rows in found], np.int64)


@register("PatchEdges")
class PatchEdges(_Partitioned):
    """Edges inside every patch; arguments as :class:`Patches`.

    Returns:
        ``index`` (2, M) int32 source and target of every edge in a patch, ``ptr`` (G+1,), and ``attr`` (M, 3) int64:
        the number of the edge inside its graph, and those of its two ends among the memberships of ``Patches``.
    """

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends, numbers of edges and memberships, and rows per graph."""
        rows, counts = [np.empty((0, 5), np.int64)], np.zeros(len(part.first_node), np.int64)
        for graph, (edges, inside) in enumerate(self.members(part)):
            number = np.cumsum(inside.ravel()).reshape(inside.shape) - 1
            patch, edge = np.nonzero(inside[:, edges[0]] & inside[:, edges[1]])
            source, target = edges[:, edge]
            rows.append(np.stack([source, target, edge, number[patch, source], number[patch, target]], axis=1))
            counts[graph] = len(edge)
        table = np.concatenate(rows)
        return table[:, :2], table[:, 2:], counts


def _members(part: Part, patches: int, hops: int, method: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """See :meth:`_Partitioned.members`."""
    found = []
    sizes = np.diff(part.first_node, append=part.graph.nodes)
    ends = np.split(np.stack([part.source, part.target]), part.first_edge[1:], axis=1)
    for first, size, edges in zip(part.first_node, sizes, ends):
        edges = edges - first
        joined = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(size, size))
        found.append((edges, _inside((joined + joined.T).tocsr(), patches, hops, method)))
    return found


def _inside(adjacency: sp.csr_array, patches: int, hops: int, method: str) -> np.ndarray:
    """(P, n) bool: which node is in which patch."""
    size = adjacency.shape[0]
    part = np.arange(size) if size < patches else _partition(adjacency, patches, method)
    part = part + (patches - 1 - part.max(initial=0))
    inside = np.zeros((patches, size), dtype=bool)
    inside[part, np.arange(size)] = True
    for _ in range(hops if size else 0):
        inside |= (adjacency @ inside.T).T > 0
    return inside


def _partition(adjacency: sp.csr_array, patches: int, method: str) -> np.ndarray:
    plain = adjacency - sp.diags_array(adjacency.diagonal())
    plain.eliminate_zeros()
    if method == "metis":
        return _by_metis(plain.tocsr(), patches)
    part = np.zeros(adjacency.shape[0], dtype=np.int64)
    _bisect(plain.tocsr(), np.arange(len(part)), 0, patches, part)
    return part


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
