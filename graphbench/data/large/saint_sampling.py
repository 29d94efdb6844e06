"""Random subgraphs of GraphSAINT (https://arxiv.org/abs/1907.04931) and the probabilities of what is in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.induced import InducedSubgraph


class NodeDraw(ABC):
    """Draw of the nodes that a subgraph is made of (Algorithm 2 of the paper).

    Args:
        incoming: the edges sorted by target.
        size: nodes, edges or walks drawn, with replacement.

    Raises:
        ValueError: nothing is to be drawn, or the graph has no edges.
    """

    def __init__(self, incoming: IncomingEdges, size: int) -> None:
        if size < 1:
            raise ValueError(f"train.batch_size must be at least 1, received {size}")
        if not len(incoming.source):
            raise ValueError("GraphSAINT draws along edges; this graph has none")
        self._ptr, self._source, self._size = incoming.ptr.numpy(), incoming.source.numpy(), size

    @abstractmethod
    def __call__(self, rng: np.random.Generator) -> np.ndarray:
        """The nodes drawn, distinct, in ascending order."""

    def _step(self, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A random in-neighbour of every node; a node that has none stays."""
        first = self._ptr[nodes]
        degree = self._ptr[nodes + 1] - first
        entry = first + rng.integers(0, np.maximum(degree, 1))
        return np.where(degree > 0, self._source[np.minimum(entry, len(self._source) - 1)], nodes)


class RandomNodes(NodeDraw):
    """Nodes with probability proportional to their number of outgoing edges (``saint_node``)."""

    def __call__(self, rng: np.random.Generator) -> np.ndarray:
        """Sources of edges drawn uniformly."""
        return np.unique(self._source[rng.integers(0, len(self._source), self._size)])


class RandomEdges(NodeDraw):
    """Both ends of edges with P(u, v) ~ 1 / deg(u) + 1 / deg(v) (``saint_edge``).

    A uniform node and a uniform edge into it: on an undirected graph every pair is drawn from either end, which gives
    the two terms. On a directed one, P(s -> t) ~ 1 / in-degree(t).
    """

    def __init__(self, incoming: IncomingEdges, size: int) -> None:
        super().__init__(incoming, size)
        self._targets = np.flatnonzero(np.diff(self._ptr))

    def __call__(self, rng: np.random.Generator) -> np.ndarray:
        """The ends of the edges drawn."""
        target = self._targets[rng.integers(0, len(self._targets), self._size)]
        return np.unique(np.concatenate([target, self._step(target, rng)]))


class RandomWalks(NodeDraw):
    """Nodes on random walks from uniform nodes (``saint_rw``), against the direction of edges, where they have one.

    Args:
        incoming: the edges sorted by target.
        size: walks.
        length: steps of a walk.

    Raises:
        ValueError: see :class:`NodeDraw`, or walks without a step.
    """

    def __init__(self, incoming: IncomingEdges, size: int, length: int) -> None:
        super().__init__(incoming, size)
        if length < 1:
            raise ValueError(f"train.walk_length must be at least 1, received {length}")
        self._length = length

    def __call__(self, rng: np.random.Generator) -> np.ndarray:
        """Roots and all nodes met."""
        met = [rng.integers(0, len(self._ptr) - 1, self._size)]
        for _ in range(self._length):
            met.append(self._step(met[-1], rng))
        return np.unique(np.concatenate(met))


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Frequencies of nodes and edges in a subgraph, counted in subgraphs drawn before training (section 3.2).

    One is added to every count, so that what was never met has a finite weight.

    Attributes:
        samples: subgraphs drawn.
        node: (N,) int32, how many of them a node was in.
        edge: (E,) int32, the same for every edge, in the list sorted by target.

    Differences from PyG's ``GraphSAINTSampler``: an edge is weighted by the count of its target, as in the paper, there
    by that of its source; edges that were never met get C + 1 for a target counted C times, there 10^4.
    """

    samples: int
    node: np.ndarray
    edge: np.ndarray

    @classmethod
    def counted(
        cls, draw: NodeDraw, induced: InducedSubgraph, edges: int, nodes: int, coverage: int, rng: np.random.Generator
    ) -> Frequencies:
        """Draws subgraphs until they have ``coverage * nodes`` nodes in all.

        Args:
            draw: the nodes of a subgraph.
            induced: edges of a subgraph.
            edges: E.
            nodes: N.
            coverage: number of times that a node is met on average.
            rng: generator of the draws.
        """
        node, edge = np.zeros(nodes, dtype=np.int32), np.zeros(edges, dtype=np.int32)
        samples = total = 0
        while total < coverage * nodes:
            drawn = induced(draw(rng))
            node[drawn.nodes] += 1
            edge[drawn.entries] += 1
            samples += 1
            total += len(drawn.nodes)
        return cls(samples, node, edge)

    def edge_weight(self, target: np.ndarray, entry: np.ndarray) -> np.ndarray:
        """(e,) float64, 1 / P(edge | target) for edges with given targets and places in the list."""
        return (self.node[target] + 1.0) / (self.edge[entry] + 1.0)

    def node_weight(self, nodes: np.ndarray) -> np.ndarray:
        """(n,) float64, 1 / P(node)."""
        return (self.samples + 1.0) / (self.node[nodes] + 1.0)
