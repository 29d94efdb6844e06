"""Every node of one large graph as a graph of its own, sampled by :mod:`graphbench.data.large.ego_sampling`."""

from __future__ import annotations

import numpy as np
import torch

from graphbench.data.large.ego_sampling import EgoSampler
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.neighbor_sampling import NeighborSampler
from graphbench.data.large.subgraph import check_one_graph
from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least

_ROOTS = 4096
"""Nodes whose graphs are drawn at a time."""


def ego_graphs(store: GraphStore, *, depth: int, neighbors: int, seed: int) -> GraphStore:
    """One graph per node: the node first, then what is drawn around it, hop by hop, and all edges among these nodes.

    Args:
        store: one graph with a target per node.
        depth: hops.
        neighbors: in-neighbours drawn per node and hop, without replacement; -1: all.
        seed: seed of the draws.

    Returns:
        A store of N graphs in the order of the nodes, whose targets are those of the nodes.

    Raises:
        ValueError: several graphs, no targets per node, or a size of 0.
    """
    check_one_graph(store, "EgoGraphs")
    check_at_least(1, depth=depth)
    incoming = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=store.edge_attr is not None)
    sampler, rng = EgoSampler(NeighborSampler(incoming, [neighbors] * depth)), np.random.default_rng(seed)
    parts = [
        sampler(np.arange(first, min(first + _ROOTS, store.num_nodes))[:, None], rng)
        for first in range(0, store.num_nodes, _ROOTS)
    ]
    entries = np.concatenate([part.entries for part in parts])
    edges = incoming.numbers_of(entries)
    rows = torch.from_numpy(np.concatenate([part.nodes for part in parts]))
    return GraphStore.from_arrays(
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.edge_index - np.repeat(part.roots[:, 0], part.counts) for part in parts], axis=1),
        x=None if store.x is None else store.x.index_select(0, rows),
        edge_attr=None if store.edge_attr is None or edges is None else store.edge_attr[edges],
        y=store.y,
        y_level="graph",
    )
