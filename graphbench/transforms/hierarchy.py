"""Coarser and coarser graphs of clusters, for transformers over several levels (https://arxiv.org/abs/2305.02866)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch

from graphbench.data.large.clusters import Clusters
from graphbench.errors import ArgumentError, UserError, check_at_least, check_one_of
from graphbench.registry import register
from graphbench.transforms.algorithms.substructures import Part, SimpleGraph
from graphbench.transforms.cell_complex import PartTransform

Method = Literal["metis", "rcm"]


@dataclass(frozen=True)
class Level:
    """One graph on one level.

    Attributes:
        name: (n_l,) for every node of the level, the node of the graph that stands for it: the first one below it.
        parent: (n_l,) its node of the next level; on the last level its own.
        graph: the level's edges, in both directions, without loops.
    """

    name: np.ndarray
    parent: np.ndarray
    graph: SimpleGraph


class _OfLevels(PartTransform):
    """Level 0 is a graph, and each further level has a node for every cluster of the level below.

    Two clusters are joined where an edge joins nodes of theirs. A level of n nodes has max(1, round(ratio n)) clusters,
    fewer where some stay empty.

    Args:
        coarsening: ratio of every level from level 1 on, each in (0, 1].
        method: ``metis`` (by the package pymetis) or ``rcm``, see :class:`~graphbench.data.large.clusters.Clusters`.
    """

    def __init__(self, coarsening: list[float], method: Method = "metis") -> None:
        if not coarsening or not all(0 < ratio <= 1 for ratio in coarsening):
            raise ArgumentError(
                "coarsening", f"coarsening must be one or more ratios in (0, 1], received {list(coarsening)}"
            )
        check_one_of(get_args(Method), method=method)
        self.coarsening, self.method = list(coarsening), method

    def levels(self, part: Part) -> list[list[Level]]:
        """Levels 0 .. L of every graph of a part."""
        return part.derived(_levels, tuple(self.coarsening), self.method)


@register("Hierarchy")
class Hierarchy(_OfLevels):
    """Nodes of all levels of a hierarchy, each with the cluster that it is in; arguments of :class:`_OfLevels`.

    Returns:
        ``index`` (2, M) int32 the name of every node (see :class:`Level`) and that of its cluster, which on the last
        level is its own, ``ptr`` (G+1,), and ``attr`` (M,) int32 its level; by graph and level.
    """

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Names, levels, and nodes of all levels per graph."""
        rows, counts = [np.empty((0, 3), np.int64)], []
        for levels in self.levels(part):
            counts.append(sum(len(level.name) for level in levels))
            for number, (level, above) in enumerate(zip(levels, [*levels[1:], levels[-1]], strict=True)):
                rows.append(np.column_stack([level.name, above.name[level.parent], np.full_like(level.name, number)]))
        table = np.concatenate(rows)
        return table[:, :2], table[:, 2], np.array(counts, np.int64)


@register("HierarchyPairs")
class HierarchyPairs(_OfLevels):
    """Pairs of distinct nodes of a level within ``hops`` of each other; other arguments as :class:`Hierarchy`.

    Args:
        coarsening: see above.
        method: see above.
        hops: the largest distance, on every level.

    Returns:
        ``index`` (2, M) int32 the names of both, ``ptr`` (G+1,), and ``attr`` (M, 2) int32 level and distance.
    """

    def __init__(self, coarsening: list[float], method: Method = "metis", hops: int = 1) -> None:
        super().__init__(coarsening, method)
        check_at_least(1, hops=hops)
        self.hops = hops

    def of_part(self, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Names, levels and distances, and pairs of all levels per graph."""
        rows, counts = [np.empty((0, 4), np.int64)], []
        for levels in self.levels(part):
            count = 0
            for number, level in enumerate(levels):
                for distance, (source, target) in enumerate(_within(level.graph, self.hops), 1):
                    facts = np.broadcast_to([number, distance], (len(source), 2))
                    rows.append(np.column_stack([level.name[source], level.name[target], facts]))
                    count += len(source)
            counts.append(count)
        table = np.concatenate(rows)
        return table[:, :2], table[:, 2:], np.array(counts, np.int64)


def _levels(part: Part, coarsening: Sequence[float], method: Method) -> list[list[Level]]:
    """See :meth:`_OfLevels.levels`."""
    found, whole = [], part.graph
    for first, size in zip(part.first_node, np.diff(part.first_node, append=whole.nodes), strict=True):
        own = slice(whole.ptr[first], whole.ptr[first + size])
        graph = SimpleGraph(whole.source[own] - first, whole.target[own] - first, int(size))
        names, levels = np.arange(graph.nodes), []
        for ratio in coarsening:
            _, member, parent = np.unique(_clusters(graph, ratio, method), return_index=True, return_inverse=True)
            levels.append(Level(names, parent, graph))
            names = names[member]
            graph = SimpleGraph(parent[graph.source], parent[graph.target], len(names))
        found.append([*levels, Level(names, np.arange(len(names)), graph)])
    return found


def _clusters(graph: SimpleGraph, ratio: float, method: Method) -> np.ndarray:
    """(n,) cluster of every node."""
    count = max(1, round(ratio * graph.nodes))
    if count >= graph.nodes or count == 1:
        return np.arange(graph.nodes) % count
    if method == "metis" and importlib.util.find_spec("pymetis") is None:
        raise UserError("levels by metis need pymetis: pip install 'graphbench-gt[clusters]', or choose rcm")
    edges = torch.from_numpy(np.stack([graph.source, graph.target]))
    return Clusters.of(edges, graph.nodes, count, method=method).number.numpy()


def _within(graph: SimpleGraph, hops: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sources and targets of the pairs at distance 1, 2, .. ``hops``."""
    if hops == 1:
        return [(graph.source, graph.target)]
    joined = sp.csr_array((np.ones(len(graph.source), bool), (graph.source, graph.target)), shape=(graph.nodes,) * 2)
    known = reached = sp.csr_array(sp.eye_array(graph.nodes, dtype=bool, format="csr"))
    found = []
    for _ in range(hops):
        reached = (reached @ joined) > known
        known = known + reached
        found.append(reached.nonzero())
    return found
