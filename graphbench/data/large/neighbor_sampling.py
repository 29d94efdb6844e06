"""Training on sampled neighbourhoods of one large graph (GraphSAGE, https://arxiv.org/abs/1706.02216).

A batch is some training nodes and, hop by hop, a bounded number of random in-neighbours of what was reached last. It
is drawn by index arithmetic over all nodes of a hop at once, from the edges sorted by target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphbench.data.large.incoming_edges import IncomingEdges


@dataclass(frozen=True, eq=False)
class Sample:
    """A sampled neighbourhood.

    Attributes:
        nodes: (n,) int64 numbers in the graph: seeds in the order given, then what every hop added.
        edge_index: (2, e) int64 edges in numbers of the sample, hop by hop.
        entries: (e,) int64 their places in the list sorted by target.
    """

    nodes: np.ndarray
    edge_index: np.ndarray
    entries: np.ndarray


class NeighborSampler:
    """Sampler of neighbourhoods, without replacement.

    Args:
        incoming: the edges sorted by target.
        sizes: in-edges per node and hop, -1 for all of them; without hops a sample is its seeds. Kept as an attribute.

    Attributes:
        source: (E,) int32, where each edge of the list sorted by target comes from.
        num_nodes: N.

    Raises:
        ValueError: a size of 0.
    """

    def __init__(self, incoming: IncomingEdges, sizes: Sequence[int]) -> None:
        if any(size < 1 and size != -1 for size in sizes):
            raise ValueError(
                "train.neighbor_sizes must list numbers of neighbours, 1 or more, or -1 for all; "
                f"received {list(sizes)}"
            )
        self.sizes = tuple(sizes)
        self._ptr, self.source, self.num_nodes = incoming.ptr.numpy(), incoming.source.numpy(), len(incoming.ptr) - 1
        self._number = np.full(self.num_nodes, -1, dtype=np.int32)

    def __call__(self, seeds: np.ndarray, rng: np.random.Generator) -> Sample:
        """The sampled neighbourhood of some distinct nodes.

        A node that is reached again is not expanded again: every node has the in-edges of one draw.
        """
        number, nodes = self._number, [np.asarray(seeds, dtype=np.int64)]
        none = np.empty(0, dtype=np.int64)
        sources, targets, entries = [none], [none], [none]
        reached = len(seeds)
        number[nodes[0]] = np.arange(reached)
        try:
            for size in self.sizes:
                frontier = nodes[-1]
                row, entry = self.draw(frontier, size, rng)
                source = self.source[entry]
                new = np.unique(source[number[source] < 0]).astype(np.int64)
                number[new] = np.arange(reached, reached + len(new))
                targets.append(row + (reached - len(frontier)))
                sources.append(number[source])
                entries.append(entry)
                nodes.append(new)
                reached += len(new)
            every = np.concatenate(nodes)
        finally:
            for hop_nodes in nodes:
                number[hop_nodes] = -1
        edge_index = np.stack([np.concatenate(sources).astype(np.int64), np.concatenate(targets)])
        return Sample(every, edge_index, np.concatenate(entries))

    def draw(self, nodes: np.ndarray, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """In-edges of some nodes: for each its target's row in ``nodes`` and its place in the list sorted by target.

        Args:
            nodes: (n,) numbers in the graph, repetitions allowed.
            size: in-edges per node, -1 for all.
            rng: decides which.
        """
        first = self._ptr[nodes]
        degree = self._ptr[nodes + 1] - first
        taken = degree if size < 0 else np.minimum(degree, size)
        row = np.repeat(np.arange(len(nodes)), taken)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(taken) - taken, taken)
        many = degree > taken
        if many.any():
            offset[many[row]] = _choose(degree[many], size, rng).reshape(-1)
        return row, first[row] + offset


def in_edges(ptr: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All in-edges of some nodes: the row of its target and its position in the list sorted by target.

    Args:
        ptr: (N+1,) first edge of every node.
        nodes: (n,) int64.
    """
    first = ptr[nodes]
    degree = ptr[nodes + 1] - first
    row = np.repeat(np.arange(len(nodes)), degree)
    return row, np.arange(len(row)) + np.repeat(first - (np.cumsum(degree) - degree), degree)


def _choose(counts: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """(R, size) different numbers below each count, all subsets equally likely; every count is above ``size``.

    Floyd's algorithm for all rows at once: step i draws from 0 .. c - size + i and, where that was drawn before, takes
    c - size + i itself, which cannot have been. Time does not depend on the counts.
    """
    chosen = np.empty((len(counts), size), dtype=np.int64)
    for i in range(size):
        top = counts - size + i
        drawn = rng.integers(0, top + 1)
        again = (chosen[:, :i] == drawn[:, None]).any(axis=1)
        chosen[:, i] = np.where(again, top, drawn)
    return chosen
