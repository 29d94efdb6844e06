"""Counts of small subgraphs around nodes and edges: structural identifiers of GSN (https://arxiv.org/abs/2006.09252)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.structures.substructure_kinds import SMALLEST, substructure_columns
from graphbench.transforms.algorithms.substructures import SimpleGraph, cliques, cycles, parts
from graphbench.transforms.base import Level, Transform


@register("SubstructureCounts")
class SubstructureCounts(Transform):
    r"""Counts of the cycles and cliques of each size that a node lies on.

    .. math:: c_i^H = |\{ S \subseteq G : S \cong H, \, i \in V_S \}|, \qquad
        c_{ij}^H = |\{ S \subseteq G : S \cong H, \, ij \in E_S \}|

    H: cycles of 3 .. ``cycles`` nodes, then cliques of 3 .. ``cliques``. All nodes of a cycle, or of a clique, are
    alike, and so are all its edges in both directions: H has one orbit of nodes and one of directed edges, and one
    column.

    Args:
        cycles: nodes of the largest cycle, at least 3; 0: no cycles.
        cliques: nodes of the largest clique, at least 3; 0: no cliques. Three nodes are counted with the cycles, where
            there are any.
        induced: cycles with a chord do not count ("graphlets", as in GSN's released runs on ogbg-molhiv); False: they
            do ("motifs", on ZINC). Cliques have no chords.

    Returns:
        ``counts`` (N, columns) int32.

    Time grows with the number of paths of ``cycles`` nodes: seconds for ogbg-molhiv up to 8, hours where nodes have
    hundreds of neighbours. Memory is bounded.

    Conventions (GSN's code unless it says ours): directions, repeated edges and self loops are left out of the search;
    a repeated edge has the same counts every time, a self loop 0 (ours; loops are taken out of the graph there).
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("counts",)

    def __init__(self, cycles: int = 6, cliques: int = 0, induced: bool = True) -> None:
        for name, size in (("cycles", cycles), ("cliques", cliques)):
            if size != 0 and size < SMALLEST:
                raise ValueError(f"{name} must be 0 or at least {SMALLEST}, received {size}")
        if not substructure_columns(cycles, cliques):
            raise ValueError(f"cycles or cliques must be at least {SMALLEST}, received {cycles} and {cliques}")
        self.cycles, self.cliques, self.induced = cycles, cliques, induced

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Counts in all graphs, some graphs at a time."""
        rows = store.num_nodes if self.level == "node" else store.num_edges
        counts = np.zeros((rows, substructure_columns(self.cycles, self.cliques)), dtype=np.int32)
        for part in parts(store):
            if self.level == "node":
                counts[part.nodes] = self._of_nodes(part.graph)
            else:
                place = part.graph.number(part.source, part.target)
                of_pair = np.concatenate([self._of_edges(part.graph), np.zeros((1, counts.shape[1]), np.int64)])
                counts[part.edges] = of_pair[place]  # -1, of loops: the last row
        return {"counts": torch.from_numpy(counts)}

    def _of_nodes(self, graph: SimpleGraph) -> np.ndarray:
        """(nodes, columns)."""
        counts = np.zeros((graph.nodes, substructure_columns(self.cycles, self.cliques)), dtype=np.int64)
        for block in cycles(graph, self.cycles, self.induced):
            counts[:, block.shape[1] - SMALLEST] += np.bincount(block.ravel(), minlength=graph.nodes)
        for block in cliques(graph, self.cliques):
            if (column := self._clique_column(block)) is not None:
                counts[:, column] += np.bincount(block.ravel(), minlength=graph.nodes)
        return counts

    def _of_edges(self, graph: SimpleGraph) -> np.ndarray:
        """(directed edges, columns)."""
        counts = np.zeros((len(graph.keys), substructure_columns(self.cycles, self.cliques)), dtype=np.int64)
        for block in cycles(graph, self.cycles, self.induced):
            _add(counts[:, block.shape[1] - SMALLEST], graph, block, np.roll(block, -1, axis=1))
        for block in cliques(graph, self.cliques):
            if (column := self._clique_column(block)) is not None:
                left, right = np.triu_indices(block.shape[1], 1)
                _add(counts[:, column], graph, block[:, left], block[:, right])
        return counts

    def _clique_column(self, block: np.ndarray) -> int | None:
        """Column of cliques of a size, None where cycles have it."""
        above = int(block.shape[1]) - SMALLEST
        if not self.cycles:
            return above
        return self.cycles - SMALLEST + above if above else None


@register("EdgeSubstructureCounts")
class EdgeSubstructureCounts(SubstructureCounts):
    """Counts of the cycles and cliques of each size that an edge lies on.

    Equations and arguments of :class:`SubstructureCounts`.

    Returns:
        ``counts`` (E, columns) int32.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("counts",)
    level: Level = "edge"


def _add(counts: np.ndarray, graph: SimpleGraph, source: np.ndarray, target: np.ndarray) -> None:
    """Adds 1 to both directions of every edge, ``counts`` (directed edges,) in place."""
    for ends in ((source, target), (target, source)):
        counts += np.bincount(graph.number(*ends).ravel(), minlength=len(counts))
