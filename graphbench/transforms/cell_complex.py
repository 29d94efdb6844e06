"""Cells of graphs besides their nodes: undirected edges, and rings (https://arxiv.org/abs/2106.12575)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least
from graphbench.registry import register
from graphbench.structures.substructure_kinds import SMALLEST
from graphbench.transforms.algorithms.substructures import Part, SimpleGraph, cycles, parts, undirected_edges
from graphbench.transforms.base import JointTransform, Level


class PartTransform(JointTransform):
    """An edge set that is made of some graphs at a time, as one simple graph.

    Attributes:
        attr_type: type of the edge set's ``attr``.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("index", "ptr", "attr")
    level: Level = "edge_set"
    attr_type: ClassVar[type[np.integer[Any]]] = np.int32

    @staticmethod
    def together(store: GraphStore, transforms: Sequence[PartTransform]) -> list[dict[str, Tensor]]:
        """Rows of all graphs of a store; what several transforms search for in a part is searched for once."""
        found = [[each.of_part(part) for each in transforms] for part in parts(store)]
        found = found or [[each.of_part(_NO_GRAPHS) for each in transforms]]
        return [each.rows(of_parts) for each, of_parts in zip(transforms, zip(*found, strict=True), strict=True)]

    def rows(self, of_parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> dict[str, Tensor]:
        """Outputs, from what :meth:`of_part` returns for one part after the other."""
        ends, attr, counts = (np.concatenate(each) for each in zip(*of_parts, strict=True))
        return {
            "index": torch.from_numpy(ends.T.astype(np.int32)),
            "ptr": torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])),
            "attr": torch.from_numpy(attr.astype(self.attr_type)),
        }

    @abstractmethod
    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Index (M, 2) and attr (M, ...) of some graphs, and how many rows each has."""


@register("UndirectedEdges")
class UndirectedEdges(PartTransform):
    """Pairs of distinct nodes that an edge joins, in one direction or in both.

    Returns:
        ``index`` (2, C) int32 the smaller and the larger node, in ascending order inside a graph, ``ptr`` (G+1,), and
        ``attr`` (C, 2) int32 the numbers, inside the graph, of the edges from the first to the second node and back.
        Of repeated edges it is the first one; where a direction is missing, the other one stands twice.
    """

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends, numbers of edges, and cells per graph."""
        pairs, edges = undirected_edges(part.graph), len(part.source)
        place = part.graph.number(part.source, part.target)
        first = np.full(len(part.graph.keys) + 1, edges)  # the last row: of loops
        np.minimum.at(first, place, np.arange(edges))
        there, back = (first[part.graph.number(*ends)] for ends in (pairs.T, pairs.T[::-1]))
        both = np.stack([np.where(there < edges, there, back), np.where(back < edges, back, there)], axis=1)
        graph = part.graph_of(pairs[:, 0])
        counts = np.bincount(graph, minlength=len(part.first_node))
        return pairs - part.first_node[graph, None], both - part.first_edge[graph, None], counts


class _OfRings(PartTransform):
    """Rings: cycles of 3 .. ``longest`` nodes without chords, every one once.

    Args:
        longest: nodes of the longest one, at least 3.
    """

    def __init__(self, longest: int = 6) -> None:
        check_at_least(SMALLEST, longest=longest)
        self.longest = longest


@register("Rings")
class Rings(_OfRings):
    """Rings of every graph.

    Returns:
        ``index`` (2, R) int32 the smallest node of every ring, twice, by graph and length, ``ptr`` (G+1,), and ``attr``
        (R,) int32 its nodes.
    """

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Smallest nodes, lengths, and rings per graph."""
        lengths, ends = part.derived(_sides, self.longest)
        first = ends[np.cumsum(lengths) - lengths, 0]
        graph = part.graph_of(first)
        counts = np.bincount(graph, minlength=len(part.first_node))
        return np.stack([first - part.first_node[graph]] * 2, axis=1), lengths, counts


@register("RingEdges")
class RingEdges(_OfRings):
    """Edges around every ring; argument as :class:`Rings`.

    Returns:
        ``index`` (2, M) int32 the smaller and the larger end of every edge of a ring, by ring, ``ptr`` (G+1,), and
        ``attr`` (M, 2) int32: numbers inside the graph of the ring, among those of ``Rings``, and of the edge, among
        those of ``UndirectedEdges``.
    """

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends, numbers of rings and edges, and rows per graph."""
        lengths, ends = part.derived(_sides, self.longest)
        pairs, nodes = undirected_edges(part.graph), part.graph.nodes
        edge = np.searchsorted(pairs[:, 0] * nodes + pairs[:, 1], ends[:, 0] * nodes + ends[:, 1])
        ring = np.repeat(np.arange(len(lengths)), lengths)
        graph, graphs = part.graph_of(ends[:, 0]), np.arange(len(part.first_node))
        first_edge = np.searchsorted(part.graph_of(pairs[:, 0]), graphs)
        first_ring = np.searchsorted(graph[np.cumsum(lengths) - lengths], graphs)
        numbers = np.stack([ring - first_ring[graph], edge - first_edge[graph]], axis=1)
        return ends - part.first_node[graph, None], numbers, np.bincount(graph, minlength=len(graphs))


def _sides(part: Part, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of rings (R,), by graph and length, and the ends of their edges (M, 2), from their smallest node on."""
    blocks = list(cycles(part.graph, longest, induced=True))
    lengths = np.concatenate([_NONE, *(np.full(len(each), each.shape[1]) for each in blocks)])
    around = [np.stack([each, np.roll(each, -1, axis=1)], axis=2).reshape(-1, 2) for each in blocks]
    ends = np.sort(np.concatenate([np.stack([_NONE, _NONE], axis=1), *around]), axis=1)
    graph = part.graph_of(ends[np.cumsum(lengths) - lengths, 0])
    order = np.lexsort((lengths, graph))
    rank = np.argsort(order)
    return lengths[order], ends[np.argsort(np.repeat(rank, lengths), kind="stable")]


_NONE = np.empty(0, np.int64)
_NO_GRAPHS = Part(slice(0, 0), slice(0, 0), _NONE, _NONE, _NONE, _NONE, SimpleGraph(_NONE, _NONE, 0))
