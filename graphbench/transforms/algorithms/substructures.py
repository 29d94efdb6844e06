"""Cycles and cliques of a simple graph, each listed once, by growing paths in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.structures.memo import Memo

_NODES = 1 << 15  # of the graphs that are searched at a time
_ROWS = 1 << 19  # paths grown at a time


class SimpleGraph:
    """Neighbours of the nodes of an undirected graph without loops and repeated edges.

    Args:
        source: (E,) nodes, of edges as they come: directions, repetitions and loops are taken out.
        target: (E,) nodes.
        nodes: number of nodes.

    Attributes:
        keys: (D,) source * nodes + target of both directions of every edge, in ascending order.
    """

    def __init__(self, source: np.ndarray, target: np.ndarray, nodes: int) -> None:
        proper = source != target
        both = np.concatenate([source[proper] * nodes + target[proper], target[proper] * nodes + source[proper]])
        self.nodes, self.keys = nodes, np.unique(both)
        self.source, self.target = np.divmod(self.keys, max(nodes, 1))
        self.ptr = np.searchsorted(self.source, np.arange(nodes + 1))

    def number(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Places in ``keys`` of edges, -1 where there is no such edge."""
        if not len(self.keys):
            return np.full(np.broadcast_shapes(source.shape, target.shape), -1)
        key = source * self.nodes + target
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[place] == key, place, -1)

    def adjacent(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Whether there is an edge, pair by pair."""
        return self.number(source, target) >= 0

    def grown(self, paths: np.ndarray) -> Iterator[np.ndarray]:
        """Blocks (P, l + 1): the paths (.., l), each with every neighbour of its last node."""
        degree = np.diff(self.ptr)[paths[:, -1]]
        ends = np.cumsum(degree)
        for block in np.split(np.arange(len(paths)), np.flatnonzero(np.diff(ends // _ROWS)) + 1):
            row = np.repeat(block, degree[block])
            neighbour = np.arange(len(row)) - np.repeat(np.cumsum(degree[block]) - degree[block], degree[block])
            yield np.column_stack([paths[row], self.target[self.ptr[paths[row, -1]] + neighbour]])


@dataclass(frozen=True)
class Part(Memo):
    """Some graphs of a store, one after the other, as one simple graph; what is found in them is derived.

    Attributes:
        nodes: rows of their nodes in the store.
        edges: rows of their edges.
        first_node: (graphs,) int64, the first node of every graph, counted from the first of the part.
        first_edge: (graphs,) int64, the same of the edges.
        source: (E,) int64 nodes of these edges, counted from the first of the part.
        target: (E,) int64.
        graph: without directions, repetitions and loops.
    """

    nodes: slice
    edges: slice
    first_node: np.ndarray
    first_edge: np.ndarray
    source: np.ndarray
    target: np.ndarray
    graph: SimpleGraph

    def graph_of(self, node: np.ndarray) -> np.ndarray:
        """Graphs of nodes, both counted from the first of the part."""
        return np.searchsorted(self.first_node, node, "right") - 1


def parts(store: GraphStore) -> Iterator[Part]:
    """All graphs, some at a time; progress is reported."""
    node_ptr, edge_ptr = store.node_ptr.numpy(), store.edge_ptr.numpy()
    first = 0
    while first < store.num_graphs:
        last = max(first + 1, int(np.searchsorted(node_ptr, node_ptr[first] + _NODES, "right")) - 1)
        nodes, edges = slice(node_ptr[first], node_ptr[last]), slice(edge_ptr[first], edge_ptr[last])
        first_node, first_edge = node_ptr[first:last] - nodes.start, edge_ptr[first:last] - edges.start
        shift = np.repeat(first_node, np.diff(edge_ptr[first : last + 1]))
        source, target = store.edge_index[:, edges].numpy().astype(np.int64) + shift
        graph = SimpleGraph(source, target, int(nodes.stop - nodes.start))
        yield Part(nodes, edges, first_node, first_edge, source, target, graph)
        report(int(nodes.stop), store.num_nodes)
        first = last


def cycles(graph: SimpleGraph, longest: int, induced: bool) -> Iterator[np.ndarray]:
    """Blocks (M, k) of cycles of 3 .. ``longest`` nodes, in their order around the cycle; the first is the smallest.

    A path grows from its smallest node by larger ones, and counts as a cycle where its ends are adjacent and its second
    node is smaller than its last, which one of its two directions is.

    Args:
        graph: graph to look in.
        longest: nodes of a cycle.
        induced: cycles with a chord are left out.
    """
    todo = [undirected_edges(graph)] if longest >= 3 else []
    while todo:
        for paths in graph.grown(todo.pop()):
            start, end, inner = paths[:, 0], paths[:, -1], paths[:, 1:-1]
            fits = (end > start) & (inner != end[:, None]).all(1)
            if induced:
                fits &= ~graph.adjacent(inner[:, :-1], end[:, None]).any(1)
            paths = paths[fits]
            closed = graph.adjacent(paths[:, 0], paths[:, -1])
            yield paths[closed & (paths[:, 1] < paths[:, -1])]
            paths = paths[~closed] if induced else paths  # an edge between the ends is a chord of anything longer
            if paths.shape[1] < longest and len(paths):
                todo.append(paths)


def induced_paths(graph: SimpleGraph, shortest: int, longest: int) -> Iterator[np.ndarray]:
    """Blocks (M, k) of paths of ``shortest`` .. ``longest`` nodes without other edges, from their smaller end on."""
    todo = [np.column_stack([graph.source, graph.target])] if longest > 2 else []
    while todo:
        for paths in graph.grown(todo.pop()):
            before, end = paths[:, :-2], paths[:, -1:]
            paths = paths[~((before == end) | graph.adjacent(before, end)).any(1)]
            if paths.shape[1] >= shortest:
                yield paths[paths[:, 0] < paths[:, -1]]
            if paths.shape[1] < longest and len(paths):
                todo.append(paths)


def induced_stars(graph: SimpleGraph, largest: int) -> Iterator[np.ndarray]:
    """Blocks (M, k + 1) of stars with 2 .. ``largest`` leaves that no edge joins, ascending; the centre is the last."""
    todo = [np.arange(graph.nodes)[:, None]] if largest > 1 else []
    while todo:
        for stars in graph.grown(todo.pop()):
            leaves, leaf = stars[:, :-2], stars[:, -1:]
            stars = stars[((leaves < leaf) & ~graph.adjacent(leaves, leaf)).all(1)]
            stars = np.column_stack([stars[:, :-2], stars[:, -1], stars[:, -2]])
            if stars.shape[1] > 2:
                yield stars
            if stars.shape[1] <= largest and len(stars):
                todo.append(stars)


def cliques(graph: SimpleGraph, largest: int) -> Iterator[np.ndarray]:
    """Blocks (M, k) of cliques of 3 .. ``largest`` nodes, in ascending order."""
    todo = [undirected_edges(graph)] if largest >= 3 else []
    while todo:
        for paths in graph.grown(todo.pop()):
            end = paths[:, -1]
            paths = paths[(end > paths[:, -2]) & graph.adjacent(paths[:, :-2], end[:, None]).all(1)]
            yield paths
            if paths.shape[1] < largest and len(paths):
                todo.append(paths)


def undirected_edges(graph: SimpleGraph) -> np.ndarray:
    """(D / 2, 2) edges, from the smaller to the larger node, in ascending order."""
    upwards = graph.source < graph.target
    return np.column_stack([graph.source[upwards], graph.target[upwards]])
