"""Generators of random graphs: stochastic block models (SBM-PATTERN, SBM-CLUSTER) and Erdos-Renyi graphs.

The block models follow Dwivedi et al., Benchmarking Graph Neural Networks, https://arxiv.org/abs/2003.00982. The
published graphs came from one unseeded run, so these agree with them in distribution, not graph by graph.

Every graph has its own random stream, derived from (seed, part, number), so that it does not depend on how many others
are made (but which pattern it gets does). Node order is one uniform permutation per graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from graphbench.data.store import GraphStore
from graphbench.errors import check_within

_PATTERN_STREAM, _TRAIN_STREAM = 0, 1
_TRIALS = 10_000
"""Draws of one graph that must be connected."""


@dataclass(frozen=True)
class BlockModel:
    """Parameters of the base graph.

    Attributes:
        communities: number of communities.
        size_min: smallest community.
        size_max: largest community, included.
        p: edge probability inside a community.
        q: edge probability between communities.
    """

    communities: int
    size_min: int
    size_max: int
    p: float
    q: float

    def __post_init__(self) -> None:
        """Refuses probabilities outside 0 .. 1 and empty ranges."""
        check_within(0, 1, p=self.p, q=self.q)
        if self.communities < 1 or not 1 <= self.size_min <= self.size_max:
            raise ValueError(
                "communities must be at least 1 and 1 <= size_min <= size_max, received "
                f"communities={self.communities}, size_min={self.size_min}, size_max={self.size_max}"
            )

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """One base graph: symmetric adjacency (n, n) bool without self loops, community of every node (n,)."""
        sizes = rng.integers(self.size_min, self.size_max + 1, self.communities)
        community = np.repeat(np.arange(self.communities), sizes)
        same = community[:, None] == community[None, :]
        return _symmetric(rng, np.where(same, np.float32(self.p), np.float32(self.q))), community


def sbm_pattern(
    counts: tuple[int, ...],
    seed: int,
    *,
    base: BlockModel,
    patterns: int = 100,
    pattern_sizes: tuple[int, int] = (5, 34),
    pattern_p: float = 0.5,
    pattern_q: float = 0.5,
    categories: int = 3,
    connected: bool = False,
) -> GraphStore:
    """Graphs with a hidden pattern, whose nodes are to be found.

    A base graph, and one of ``patterns`` fixed random graphs joined to it by random edges. The pattern's edges and
    signal are the same wherever it occurs; joining edges, base graph and base signal are new in every graph.

    Args:
        counts: graphs per part (train, val, test), stored behind each other; each part runs through the patterns in
            order, equally many graphs of each pattern.
        seed: seed of the whole data set.
        base: the base graph (published: 5 communities of 5 .. 34 nodes, p = 0.5, q = 0.35).
        patterns: number of patterns.
        pattern_sizes: smallest and largest pattern, one uniform draw each.
        pattern_p: edge probability inside a pattern.
        pattern_q: probability of an edge between a pattern node and a base node.
        categories: number of signal values.
        connected: draw every graph again until it is connected.

    Returns:
        Store with ``x`` (N, 1) uint8 signal and ``y`` (N,) 1 for pattern nodes, node level.
    """
    check_within(0, 1, pattern_p=pattern_p, pattern_q=pattern_q)
    if patterns < 1 or not 1 <= pattern_sizes[0] <= pattern_sizes[1]:
        raise ValueError(f"need at least 1 pattern and 1 <= smallest <= largest, received {patterns}, {pattern_sizes}")
    drawn = []
    for number in range(patterns):
        rng = np.random.default_rng([seed, _PATTERN_STREAM, number])
        size = int(rng.integers(pattern_sizes[0], pattern_sizes[1] + 1))
        drawn.append((_symmetric(rng, np.float32(pattern_p), size), rng.integers(0, categories, size)))

    def graph(rng: np.random.Generator, number: int, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        block, pattern_signal = drawn[number * patterns // total if total >= patterns else number]
        for _ in range(_TRIALS):
            ground, _ = base.draw(rng)
            n, m = len(ground), len(block)
            adjacency = np.zeros((n + m, n + m), dtype=bool)
            adjacency[:n, :n] = ground
            adjacency[n:, n:] = block
            joined = rng.random((n, m), dtype=np.float32) < pattern_q
            adjacency[:n, n:] = joined
            adjacency[n:, :n] = joined.T
            if not connected or _is_connected(adjacency):
                signal = np.concatenate([rng.integers(0, categories, n), pattern_signal])
                return adjacency, signal, np.repeat([0, 1], [n, m])
        raise ValueError(f"none of {_TRIALS} graphs was connected: raise p, q or pattern_q, or set connected to false")

    return _assemble(counts, seed, graph, lambda rng, signal, label: signal)


def sbm_cluster(counts: tuple[int, ...], seed: int, *, base: BlockModel) -> GraphStore:
    """Graphs of communities, one node of each labelled in the features; the others are to be assigned.

    Args:
        counts: graphs per part (train, val, test), stored behind each other.
        seed: seed of the whole data set.
        base: the graph (published: 6 communities of 5 .. 34 nodes, p = 0.55, q = 0.25).

    Returns:
        Store with ``x`` (N, 1) uint8: r + 1 at one random node of community r, else 0; ``y`` (N,) community.
    """

    def graph(rng: np.random.Generator, number: int, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        adjacency, community = base.draw(rng)
        return adjacency, np.zeros(len(community), dtype=np.int64), community

    def name_one(rng: np.random.Generator, signal: np.ndarray, label: np.ndarray) -> np.ndarray:
        for community in range(base.communities):
            signal[rng.choice(np.flatnonzero(label == community))] = community + 1
        return signal

    return _assemble(counts, seed, graph, name_one)


def erdos_renyi(nodes: int, p: float, rng: np.random.Generator) -> np.ndarray:
    """One undirected Erdos-Renyi graph without self loops, in time and memory proportional to its edges.

    Args:
        nodes: number of nodes, millions included.
        p: probability of every pair, independently.
        rng: random stream.

    Returns:
        (2, E) int64, both directions of every edge, sorted by source.
    """
    check_within(0, 1, p=p)
    pairs = nodes * (nodes - 1) // 2
    count = int(rng.binomial(pairs, p)) if pairs else 0
    if count * 8 > pairs:  # dense: choosing without repetition is cheaper than drawing until distinct
        code = rng.choice(pairs, count, replace=False)
    else:
        code = _distinct(rng.integers(0, pairs, count)) if count else np.empty(0, dtype=np.int64)
        while len(code) < count:
            code = _distinct(np.concatenate([code, rng.integers(0, pairs, (count - len(code)) * 2)]))
        code = code if len(code) == count else rng.permutation(code)[:count]
    # Pair (i, j), i > j, has code i (i - 1) / 2 + j; the root in floating point may be off by one either way.
    high = ((1 + np.sqrt(1 + 8 * code.astype(np.float64))) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > code
    high += high * (high + 1) // 2 <= code
    low = code - high * (high - 1) // 2
    # One number per edge: sorting numbers takes a tenth of the time of sorting pairs.
    edges = np.concatenate([high * nodes + low, low * nodes + high])
    del code, high, low
    edges.sort()
    return np.stack(np.divmod(edges, max(nodes, 1)))


def _distinct(values: np.ndarray) -> np.ndarray:
    """Sorted, each once. ``numpy.unique`` hashes first, which takes eighty times as long for ten million numbers."""
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]


def _assemble(
    counts: tuple[int, ...],
    seed: int,
    graph: Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray, np.ndarray]],
    finish: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray],
) -> GraphStore:
    sizes, edges, sources, targets, signals, labels = [], [], [], [], [], []
    for part, total in enumerate(counts, start=_TRAIN_STREAM):
        for number in range(total):
            rng = np.random.default_rng([seed, part, number])
            adjacency, signal, label = graph(rng, number, total)
            order = rng.permutation(len(label))
            source, target = np.nonzero(adjacency[np.ix_(order, order)])
            sizes.append(len(label))
            edges.append(len(source))
            sources.append(source.astype(np.int32))
            targets.append(target.astype(np.int32))
            labels.append(label[order].astype(np.uint8))
            signals.append(finish(rng, signal[order], label[order]).astype(np.uint8))

    def cat(parts: list[np.ndarray], dtype: type) -> np.ndarray:
        return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)

    return GraphStore.from_arrays(
        sizes,
        edges,
        np.stack([cat(sources, np.int32), cat(targets, np.int32)]),
        x=cat(signals, np.uint8),
        y=cat(labels, np.uint8).astype(np.int64),
        y_level="node",
    )


def _is_connected(adjacency: np.ndarray) -> bool:
    """Whether a graph is connected; an isolated node, the common case, is noticed in a tenth of the time."""
    if len(adjacency) > 1 and not adjacency.any(0).all():
        return False
    return bool(scipy.sparse.csgraph.connected_components(adjacency, directed=False, return_labels=False) == 1)


def _symmetric(rng: np.random.Generator, probability: np.ndarray | np.float32, size: int | None = None) -> np.ndarray:
    n = np.shape(probability)[0] if size is None else size
    upper = np.triu(rng.random((n, n), dtype=np.float32) < probability, 1)
    return upper | upper.T
