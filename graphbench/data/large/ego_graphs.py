"""Every node of one large graph as a small graph of its own: neighbourhoods of ShaDow, https://arxiv.org/abs/2012.01380.

Worked example, edges 0-1, 1-2, 2-0, 2-3 in both directions, depth 1, all neighbours: the graph of node 3 is (3, 2) with
one edge in both directions, that of node 0 is (0, 1, 2) with all three edges among them.
"""

from __future__ import annotations

import numpy as np
import torch

from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.subgraph import check_one_graph
from graphbench.data.store import GraphStore

_ROOTS = 4096
"""Nodes whose graphs are drawn at a time."""


def ego_graphs(store: GraphStore, *, depth: int, neighbors: int, seed: int) -> GraphStore:
    """One graph per node: the node first, then what is drawn around it, hop by hop, and all edges among these nodes.

    Args:
        store: one graph with a target per node.
        depth: hops.
        neighbors: in-neighbours drawn per node and hop, without replacement; -1: all.
        seed: of the draws.

    Returns:
        A store of N graphs in the order of the nodes, whose targets are those of the nodes.

    Raises:
        ValueError: several graphs, no targets per node, or a size of 0.
    """
    check_one_graph(store, "EgoGraphs")
    if depth < 1:
        raise ValueError(f"depth must be 1 or more, received {depth}")
    incoming = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=store.edge_attr is not None)
    sampler = NeighborSampler(incoming, [neighbors] * depth)
    rng = np.random.default_rng(seed)
    every = np.arange(store.num_nodes)
    parts = [_around(every[first : first + _ROOTS], sampler, incoming, rng) for first in range(0, len(every), _ROOTS)]
    sizes, counts, nodes, edge_index, entries = (np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))
    edges = None if incoming.edge is None else incoming.edge[torch.from_numpy(entries)]
    rows = torch.from_numpy(nodes)
    return GraphStore.from_arrays(
        sizes,
        counts,
        edge_index,
        x=None if store.x is None else store.x.index_select(0, rows),
        edge_attr=None if store.edge_attr is None or edges is None else store.edge_attr[edges],
        y=store.y,
        y_level="graph",
    )


def _around(
    roots: np.ndarray, sampler: NeighborSampler, incoming: IncomingEdges, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Nodes and edges per graph, nodes, edges numbered inside each graph, and their places in the sorted list.

    A member is the number ``graph * N + node``: all graphs are grown at once.
    """
    total, source = incoming.ptr.numel() - 1, incoming.source.numpy()
    frontier = np.arange(len(roots)) * total + roots
    known, found = frontier, [frontier]
    for size in sampler.sizes:
        row, entry = sampler.draw(frontier % total, size, rng)
        frontier = np.setdiff1d(frontier[row] // total * total + source[entry], known)
        known = np.union1d(known, frontier)
        found.append(frontier)
    members = np.concatenate(found)
    members = members[np.argsort(members // total, kind="stable")]  # by graph, the root first
    graph = members // total
    sizes = np.bincount(graph, minlength=len(roots))
    place = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    order = np.argsort(members)
    target, entry = sampler.draw(members % total, -1, rng)
    wanted = graph[target] * total + source[entry]
    at = np.searchsorted(members, wanted, sorter=order).clip(max=len(members) - 1)
    inside = members[order[at]] == wanted
    target, entry = target[inside], entry[inside]
    edge_index = np.stack([place[order[at[inside]]], place[target]])
    return sizes, np.bincount(graph[target], minlength=len(roots)), members % total, edge_index, entry
