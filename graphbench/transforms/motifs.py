"""Small connected subgraphs that tokens stand for in DeepGraph (https://arxiv.org/abs/2303.00579)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from graphbench.errors import ArgumentError
from graphbench.registry import register
from graphbench.structures.substructure_kinds import CYCLE, NEIGHBOURHOOD, OTHER
from graphbench.transforms.algorithms.substructures import Part, SimpleGraph, cycles, induced_paths, induced_stars
from graphbench.transforms.cell_complex import PartTransform

_SHORTEST_PATH = 4


class _OfMotifs(PartTransform):
    """Motifs of a graph: cycles, then paths of 4 nodes and more, then stars, all without further edges, each one once.

    For every node its ball follows, or what a random walk from it sees, which depends on its number in its graph alone.

    Args:
        cycles: nodes of the longest cycle; 0: none.
        paths: nodes of the longest path; 0: none.
        stars: leaves of the largest star, whose smallest has 2; 0: none.
        hops: radius of the balls; 0: none.
        walk: steps of the walks; 0: none.
    """

    def __init__(self, cycles: int = 8, paths: int = 8, stars: int = 6, hops: int = 2, walk: int = 0) -> None:
        for name, smallest, value in (
            ("cycles", 3, cycles),
            ("paths", _SHORTEST_PATH, paths),
            ("stars", 2, stars),
            ("hops", 1, hops),
            ("walk", 1, walk),
        ):
            if value != 0 and value < smallest:
                raise ArgumentError(name, f"{name} must be 0 or at least {smallest}, received {value}")
        if not any((cycles, paths, stars, hops, walk)):
            raise ValueError("there must be motifs: cycles, paths, stars, hops and walk are 0")
        self.cycles, self.paths, self.stars, self.hops, self.walk = cycles, paths, stars, hops, walk

    def motifs(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Kinds of the motifs (S,), by graph, their nodes: how many each has (S,), and which (M,), ascending."""
        return part.derived(_motifs, self.cycles, self.paths, self.stars, self.hops, self.walk)


@register("Motifs")
class Motifs(_OfMotifs):
    """Motifs of every graph.

    Returns:
        ``index`` (2, S) int32 the smallest node of every motif, twice, ``ptr`` (G+1,), and ``attr`` (S,) int32 its kind
        (:mod:`graphbench.structures.substructure_kinds`).
    """

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Smallest nodes, kinds, and motifs per graph."""
        kind, count, nodes = self.motifs(part)
        first = nodes[np.cumsum(count) - count]
        graph = part.graph_of(first)
        own = first - part.first_node[graph]
        return np.stack([own, own], axis=1), kind, np.bincount(graph, minlength=len(part.first_node))


@register("MotifNodes")
class MotifNodes(_OfMotifs):
    """Nodes of every motif; arguments as :class:`Motifs`.

    Returns:
        ``index`` (2, M) int32 the nodes of motifs, twice, by motif, ``ptr`` (G+1,), and ``attr`` (M,) int32 the number
        of the motif inside the graph, among those of ``Motifs``.
    """

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes, motifs, and rows per graph."""
        _, count, nodes = self.motifs(part)
        graphs = np.arange(len(part.first_node))
        first_motif = np.searchsorted(part.graph_of(nodes[np.cumsum(count) - count]), graphs)
        graph = part.graph_of(nodes)
        own = nodes - part.first_node[graph]
        motif = np.repeat(np.arange(len(count)), count) - first_motif[graph]
        return np.stack([own, own], axis=1), motif, np.bincount(graph, minlength=len(graphs))


def _motifs(part: Part, *sizes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found = list(_found(part, *sizes))
    kind, count, nodes = (np.concatenate([np.empty(0, np.int64), *each]) for each in zip(*found, strict=True))
    first = np.cumsum(count) - count
    order = np.argsort(part.graph_of(nodes[first]), kind="stable")
    rank = np.argsort(order)
    return kind[order], count[order], nodes[np.lexsort((nodes, np.repeat(rank, count)))]


def _found(
    part: Part, longest: int, paths: int, stars: int, hops: int, walk: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    graph = part.graph
    for kind, blocks in (
        (CYCLE, cycles(graph, longest, induced=True)),
        (OTHER, induced_paths(graph, _SHORTEST_PATH, paths)),
        (OTHER, induced_stars(graph, stars)),
    ):
        for block in blocks:
            yield np.full(len(block), kind), np.full(len(block), block.shape[1]), block.ravel()
    near = [_balls(graph, hops)] if hops else []
    near += [_walked(part, walk)] if walk else []
    for lists in near:
        counts = np.diff(lists.indptr).astype(np.int64)
        yield np.full(graph.nodes, NEIGHBOURHOOD), counts, lists.indices.astype(np.int64)
    yield (np.empty(0, np.int64),) * 3


def _balls(graph: SimpleGraph, hops: int) -> sp.csr_array:
    """(nodes, nodes) which nodes are at most so many hops away."""
    shape = (graph.nodes, graph.nodes)
    edges = sp.csr_array((np.ones(len(graph.keys), dtype=bool), (graph.source, graph.target)), shape=shape)
    reached = sp.csr_array(sp.eye_array(graph.nodes, dtype=bool))
    for _ in range(hops):
        reached = reached + reached @ edges
    return reached


def _walked(part: Part, steps: int) -> sp.csr_array:
    """(nodes, nodes) which nodes a walk from each node sees; every step is to a uniform neighbour."""
    graph = part.graph
    now = start = np.arange(graph.nodes)
    within = (start - part.first_node[part.graph_of(start)]).astype(np.uint64)
    degree, seen = np.diff(graph.ptr), [start]
    for step in range(1, steps + 1):
        choice = _mixed(within * np.uint64(1 << 20) + np.uint64(step)) % np.maximum(degree[now], 1).astype(np.uint64)
        now = np.where(degree[now] > 0, np.append(graph.target, 0)[graph.ptr[now] + choice.astype(np.int64)], now)
        seen.append(now)
    rows, columns = np.tile(start, steps + 1), np.concatenate(seen)
    return sp.csr_array(sp.coo_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(graph.nodes,) * 2))


def _mixed(z: np.ndarray) -> np.ndarray:
    """SplitMix64's numbers (https://doi.org/10.1145/2660193.2660195), (n,) uint64."""
    z = z * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed
