"""Hop distances of all pairs of nodes, 64 searches to a machine word.

Node j has one bit for every source i of its graph: set as soon as a path i -> j of h edges is known. One more edge is
one OR over the words of the nodes that j's edges come from; a pair's distance is the number of rounds in which its bit
was missing, which binary counters, one bit per word again, add up for all pairs at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphbench.data.progress import report
from graphbench.data.store import GraphStore
from graphbench.structures.pairs import UNREACHABLE
from graphbench.transforms._all_pairs import check_pairs
from graphbench.transforms._threads import in_threads

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
            out[first[graph] : first[graph + 1]].reshape(size, size)[:] = hops[:, :size].T

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
    """Some graphs whose bits take the same number of words.

    Attributes:
        graph: (g,) their numbers in the store.
        ptr: (g+1,) first node of each, and the total.
        reached: (n, words) uint64, bit i of row j: the search from i has reached j.
        source: (m,) by target, where edges come from; every node is a source of itself, so that no list is empty.
        start: (n,) first entry of ``source`` for every target.
    """

    graph: np.ndarray
    ptr: np.ndarray
    reached: np.ndarray
    source: np.ndarray
    start: np.ndarray

    @classmethod
    def of(cls, store: GraphStore, graphs: np.ndarray) -> _Chunk:
        sizes, edge_ptr = store.sizes.numpy()[graphs], store.edge_ptr.numpy()
        ptr = np.concatenate([[0], np.cumsum(sizes)])
        counts = edge_ptr[graphs + 1] - edge_ptr[graphs]
        offset = np.repeat(edge_ptr[graphs] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        edges = store.edge_index.numpy()[:, np.arange(counts.sum()) + offset].astype(np.int64)
        edges += np.repeat(ptr[:-1], counts)
        nodes = np.arange(ptr[-1])
        source, target = np.concatenate([edges, np.stack([nodes, nodes])], axis=1)
        degree = np.bincount(target, minlength=len(nodes))
        reached = np.zeros((len(nodes), -(-int(sizes[0]) // 64)), dtype="<u8")
        own = nodes - np.repeat(ptr[:-1], sizes)
        reached[nodes, own >> 6] = np.uint64(1) << (own & 63).astype(np.uint64)
        order = np.argsort(target, kind="stable")
        return cls(graphs, ptr, reached, source[order], np.cumsum(degree) - degree)

    def step(self) -> np.ndarray:
        """The bits after one more edge."""
        return np.bitwise_or.reduceat(np.take(self.reached, self.source, axis=0), self.start, axis=0)


def _search(chunk: _Chunk, cutoff: int) -> list[tuple[int, np.ndarray]]:
    """Graphs and their (n, 64 words) uint8 hops, row j and column i the hops from i to j."""
    counters: list[np.ndarray] = []
    reached = chunk.reached
    carry, spare = np.empty_like(reached), np.empty_like(reached)
    for _ in range(cutoff):
        np.invert(reached, out=carry)
        for plane in counters:
            np.bitwise_and(plane, carry, out=spare)
            plane ^= carry
            carry, spare = spare, carry
        if carry.any():
            counters.append(carry.copy())
        new = chunk.step()
        if np.array_equal(new, reached):
            break
        reached[:] = new
    hops = np.zeros((len(reached), 64 * reached.shape[1]), dtype=np.uint8)
    for bit, plane in enumerate(counters):
        hops |= np.unpackbits(plane.view(np.uint8), axis=1, bitorder="little") << np.uint8(bit)
    hops[np.unpackbits(reached.view(np.uint8), axis=1, bitorder="little") == 0] = UNREACHABLE
    return [(int(graph), hops[a:b]) for graph, a, b in zip(chunk.graph, chunk.ptr[:-1], chunk.ptr[1:])]
