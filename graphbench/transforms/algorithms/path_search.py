"""Breadth-first searches from all nodes that record the paths; for hops alone ``bit_search`` is faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.structures.pairs import UNREACHABLE
from graphbench.transforms.algorithms.all_pairs import check_pairs

# Nodes and edges that the searches of one batch of sources may touch: bounds memory (about 100 bytes for each).
_WORK = 1 << 21


def unreached(store: GraphStore) -> np.ndarray:
    """(sum n_g^2,) uint8, no pair reached yet."""
    check_pairs(store, 1)
    return np.full(int(store.sizes.square().sum()), UNREACHABLE, dtype=np.uint8)


@dataclass(frozen=True)
class Step:
    """Pairs of nodes that a search connects with the same number of hops, for some of the sources.

    Attributes:
        hops: length of the paths.
        pair: (P,) int64, position of each pair (source, target) among all pairs of the store.
        before: (P,) int64, the pair (source, last node before the target); the pair itself at 0 hops.
        edge: (P,) int64, number of the edge that was walked last; empty at 0 hops.
    """

    hops: int
    pair: np.ndarray
    before: np.ndarray
    edge: np.ndarray


def breadth_first(store: GraphStore) -> Iterator[Step]:
    """Searches from all nodes, many at a time; every pair with a path comes up once, shorter paths first.

    Of several shortest paths the one is taken that a queue finds first when the edges of a node are walked in the
    order they are stored in: the choice of ``networkx.shortest_path``.

    Args:
        store: the graphs.

    Yields:
        One step per number of hops, for one batch of sources after the other.
    """
    nodes = _Nodes.of(store)
    for first, last in nodes.batches():
        source = np.arange(first, last)
        row = nodes.row[source] - nodes.first[source]  # pair (source, node) is row + number of the node
        base = nodes.row[first]
        reached = np.zeros(nodes.row[last] - base, dtype=bool)
        first_number = np.empty(len(reached), dtype=np.int64)
        at, pair, hops = source, row + source, 0
        yield Step(0, pair, pair, pair[:0])
        reached[pair - base] = True
        while len(pair):
            hops += 1
            origin, edge = nodes.walk(at)
            row, before, at = row[origin], pair[origin], nodes.target[edge]
            pair = row + at
            candidate = np.flatnonzero(~reached[pair - base])
            cell, number = pair[candidate] - base, np.arange(len(candidate))
            first_number[cell[::-1]] = number[::-1]  # of several ways to a pair the first counts
            new = candidate[first_number[cell] == number]
            row, before, at, pair, edge = row[new], before[new], at[new], pair[new], edge[new]
            reached[pair - base] = True
            if len(pair):
                yield Step(hops, pair, before, edge)
        report(float(nodes.work[last]), float(nodes.work[-1]))


@dataclass(frozen=True)
class _Nodes:
    """All nodes of a store, numbered consecutively, and their outgoing edges.

    Attributes:
        first: (N,) first node of the same graph.
        row: (N+1,) first pair of every node, and the total.
        work: (N+1,) nodes and edges that the searches from earlier nodes may touch.
        out_ptr: (N+1,) first entry of every node in ``out_edge``.
        out_edge: (E,) edges by source, otherwise in their order.
        target: (E,) where each edge leads.
    """

    first: np.ndarray
    row: np.ndarray
    work: np.ndarray
    out_ptr: np.ndarray
    out_edge: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, store: GraphStore) -> _Nodes:
        sizes, edges = store.sizes.numpy(), store.edge_counts.numpy()
        first = store.node_ptr.numpy()[:-1]
        source, target = store.edge_index.numpy().astype(np.int64) + np.repeat(first, edges)
        size = np.repeat(sizes, sizes)
        return cls(
            first=np.repeat(first, sizes),
            row=np.concatenate([[0], np.cumsum(size)]),
            work=np.concatenate([[0], np.cumsum(size + np.repeat(edges, sizes))]),
            out_ptr=np.concatenate([[0], np.cumsum(np.bincount(source, minlength=store.num_nodes))]),
            out_edge=np.argsort(source, kind="stable"),
            target=target,
        )

    def batches(self) -> Iterator[tuple[int, int]]:
        """Ranges of sources, each with a bounded amount of work (or one source)."""
        first, total = 0, len(self.first)
        while first < total:
            last = int(np.searchsorted(self.work, self.work[first] + _WORK, side="right")) - 1
            last = max(last, first + 1)
            yield first, last
            first = last

    def walk(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All edges that leave the given nodes: position of the node in ``at`` and number of the edge, in order."""
        start = self.out_ptr[at]
        count = self.out_ptr[at + 1] - start
        origin = np.repeat(np.arange(len(at)), count)
        within = np.arange(len(origin)) - np.repeat(np.cumsum(count) - count, count)
        return origin, self.out_edge[start[origin] + within]
