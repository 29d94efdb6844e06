"""Hop distances of all pairs of nodes, 64 searches to a machine word.

Node i has one bit for every node j of its graph: set as soon as a path i -> j of h edges is known. One more edge is one
OR over the words of the nodes that i's edges lead to. Distances are written in binary, one plane of bits per digit: all
pairs not reached yet hold the number of the round, so the digits that change from one round to the next are the
same for all of them, two on average.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.structures.pairs import UNREACHABLE
from graphbench.transforms.algorithms.all_pairs import check_pairs
from graphbench.transforms.algorithms.threads import in_threads

_WORDS = 1 << 13
"""Words of the bits of a chunk of graphs: with their counters they fit into the cache of one core."""


def all_hops(store: GraphStore, cutoff: int) -> np.ndarray:
    """(sum n_g^2,) uint8, row i and column j of a graph the hops from i to j, 255 = none within the cut-off."""
    check_pairs(store, 1)
    sizes = store.sizes.numpy()
    first = np.concatenate([[0], np.cumsum(sizes * sizes)])
    out = np.empty(first[-1], dtype=np.uint8)

    def work(graphs: np.ndarray) -> None:
        for graph, hops in _search(_Chunk.of(store, graphs), cutoff):
            size = sizes[graph]
            out[first[graph] : first[graph + 1]].reshape(size, size)[:] = hops[:, :size]

    chunks = _chunks(sizes)
    for done, _ in enumerate(in_threads(work, chunks), start=1):
        report(float(done), float(len(chunks)))
    return out


def _chunks(sizes: np.ndarray) -> list[np.ndarray]:
    """Graphs of similar size together: their searches end together, and their bits take as many words."""
    width = -(-sizes // 64)
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    edges = np.diff(np.cumsum(sizes[order] * width[order]) // _WORDS).astype(bool) | np.diff(width[order]).astype(bool)
    return np.split(order, np.flatnonzero(edges) + 1) if len(order) else []


@dataclass(frozen=True)
class _Chunk:
    """Some graphs whose bits take the same number of words; nodes sorted by falling out-degree.

    Attributes:
        graph: (g,) their numbers in the store.
        ptr: (g+1,) first node of each, and the total.
        position: (n,) of every node in that order.
        reached: (words, n) uint64, bit j of column i: a path from i to j is known.
        target: (m,) where edges lead to: the first edge of all nodes that have one, then the second, and so on.
        counts: number of nodes with a first edge, a second, and so on: each time the first ones.
    """

    graph: np.ndarray
    ptr: np.ndarray
    position: np.ndarray
    reached: np.ndarray
    target: np.ndarray
    counts: list[int]

    @classmethod
    def of(cls, store: GraphStore, graphs: np.ndarray) -> _Chunk:
        sizes, edge_ptr = store.sizes.numpy()[graphs], store.edge_ptr.numpy()
        ptr = np.concatenate([[0], np.cumsum(sizes)])
        edges = edge_ptr[graphs + 1] - edge_ptr[graphs]
        offset = np.repeat(edge_ptr[graphs] - np.concatenate([[0], np.cumsum(edges)[:-1]]), edges)
        ends = store.edge_index.numpy()[:, np.arange(edges.sum()) + offset].astype(np.int64)
        source, target = ends + np.repeat(ptr[:-1], edges)
        degree = np.bincount(source, minlength=ptr[-1])
        nodes, position = np.arange(ptr[-1]), np.empty(ptr[-1], dtype=np.int64)
        position[np.argsort(-degree, kind="stable")] = nodes
        by_source = np.argsort(source, kind="stable")
        source, target = source[by_source], target[by_source]
        rank = np.arange(len(source)) - (np.cumsum(degree) - degree)[source]
        reached = np.zeros((-(-int(sizes[0]) // 64), len(nodes)), dtype="<u8")
        local = nodes - np.repeat(ptr[:-1], sizes)
        reached[local >> 6, position] = np.uint64(1) << (local & 63).astype(np.uint64)
        by_rank = np.argsort(rank * len(nodes) + position[source])
        return cls(graphs, ptr, position, reached, position[target[by_rank]], np.bincount(rank).tolist())

    def step(self) -> None:
        """Takes one more edge into ``reached``."""
        led_to, done = np.take(self.reached, self.target, axis=1), 0
        for count in self.counts:
            self.reached[:, :count] |= led_to[:, done : done + count]
            done += count

    def pairs(self, bits: np.ndarray) -> np.ndarray:
        """(n, 8 words) uint64 whose bytes are the bits of (words, n), by node: later work takes eight pairs at once."""
        rows = np.ascontiguousarray(bits[:, self.position].T)
        return np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little").view("<u8")


def _search(chunk: _Chunk, cutoff: int) -> list[tuple[int, np.ndarray]]:
    """Graphs and their (n, 64 words) uint8 hops, row i and column j the hops from i to j."""
    digits: list[np.ndarray] = []
    reached = chunk.reached
    for hops in range(1, cutoff + 1):
        missing = ~reached
        for digit_number in range((hops ^ (hops - 1)).bit_length()):
            if digit_number == len(digits):
                digits.append(np.zeros_like(reached))
            digits[digit_number] ^= missing
        chunk.step()
        if not (reached & missing).any():
            break
    hops_of_pairs = chunk.pairs(~reached) * np.uint64(UNREACHABLE)
    for digit_number, digit in enumerate(digits):
        hops_of_pairs |= chunk.pairs(digit) << np.uint64(digit_number)
    rows = hops_of_pairs.view(np.uint8)
    return [(int(graph), rows[a:b]) for graph, a, b in zip(chunk.graph, chunk.ptr[:-1], chunk.ptr[1:])]
