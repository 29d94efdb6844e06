"""Ego graphs: what is sampled around some roots, and all edges among it (ShaDow, https://arxiv.org/abs/2012.01380).

Worked example, edges 0-1, 1-2, 2-0, 2-3 in both directions, depth 1, all neighbours: the graph of node 3 is (3, 2) with
one edge in both directions, that of node 0 is (0, 1, 2) with all three edges among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.subgraph import subgraph
from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch


@dataclass(frozen=True, eq=False)
class EgoGraphs:
    """Graphs around some roots, one after the other.

    Attributes:
        sizes: (G,) nodes of each.
        counts: (G,) edges of each.
        nodes: (n,) numbers in the graph: the roots of graph 0, what was sampled around them, those of graph 1, ...
        roots: (G, r) rows of the roots in ``nodes``.
        edge_index: (2, e) rows of the ends in ``nodes``, graph by graph.
        entries: (e,) places of the edges in the list sorted by target.
    """

    sizes: np.ndarray
    counts: np.ndarray
    nodes: np.ndarray
    roots: np.ndarray
    edge_index: np.ndarray
    entries: np.ndarray

    def batch(self, store: GraphStore, edges: Tensor | None) -> GraphBatch:
        """The graphs as a batch.

        Args:
            store: the graph they are cut from.
            edges: (e,) numbers of their edges in the store, where something is stored for edges.
        """
        nodes, edge_index = torch.from_numpy(self.nodes), torch.from_numpy(self.edge_index)
        return subgraph(store, nodes, edge_index, edges, self.sizes.tolist())

    def without_edges_between_roots(self) -> EgoGraphs:
        """The graphs of two roots each, without the edges from one to the other in either direction."""
        graph = np.repeat(np.arange(len(self.counts)), self.counts)
        first, second = self.roots[graph].T
        source, target = self.edge_index
        joins = ((source == first) & (target == second)) | ((source == second) & (target == first))
        counts = np.bincount(graph[~joins], minlength=len(self.counts))
        return EgoGraphs(self.sizes, counts, self.nodes, self.roots, self.edge_index[:, ~joins], self.entries[~joins])


class EgoSampler:
    """Sampler of ego graphs.

    Hop by hop, in-neighbours of what a graph reached last are drawn without replacement, for each graph by itself; the
    graph has all edges among the nodes reached.

    Args:
        sampler: draws the neighbours, and says how many per hop.
    """

    def __init__(self, sampler: NeighborSampler) -> None:
        self._sampler = sampler

    def __call__(self, roots: np.ndarray, rng: np.random.Generator) -> EgoGraphs:
        """Grows all graphs at once; a member is the number ``graph * N + node``.

        Args:
            roots: (G, r) node numbers, the roots of each graph.
            rng: decides what is drawn.
        """
        total, source = self._sampler.num_nodes, self._sampler.source
        seeds = np.arange(len(roots))[:, None] * total + roots
        frontier = _distinct(seeds.reshape(-1))
        known, found = frontier, [frontier]
        for size in self._sampler.sizes:
            row, entry = self._sampler.draw(frontier % total, size, rng)
            frontier = np.setdiff1d(frontier[row] // total * total + source[entry], known)
            known = np.union1d(known, frontier)
            found.append(frontier)
        members = np.concatenate(found)
        members = members[np.argsort(members // total, kind="stable")]  # by graph, the roots first
        order = np.argsort(members)
        target, entry = self._sampler.draw(members % total, -1, rng)
        wanted = members[target] // total * total + source[entry]
        at = np.searchsorted(members, wanted, sorter=order).clip(max=len(members) - 1)
        inside = members[order[at]] == wanted
        target, entry = target[inside], entry[inside]
        graph = members // total
        return EgoGraphs(
            sizes=np.bincount(graph, minlength=len(roots)),
            counts=np.bincount(graph[target], minlength=len(roots)),
            nodes=members % total,
            roots=order[np.searchsorted(members, seeds, sorter=order)],
            edge_index=np.stack([order[at[inside]], target]),
            entries=entry,
        )


def _distinct(values: np.ndarray) -> np.ndarray:
    """Each value once, where it came first."""
    _, first = np.unique(values, return_index=True)
    return values[np.sort(first)]
