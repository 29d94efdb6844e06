"""Validation of a store: lengths of its tensors, and ends of its edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from graphbench.data.store import GraphStore


def check_lengths(store: GraphStore) -> None:
    """Compares every field with the numbers of graphs, nodes, edges and pairs of nodes.

    Raises:
        ValueError: naming the first field that differs.
    """
    nodes, edges, pairs = store.num_nodes, store.num_edges, int(store.sizes.square().sum())
    fields = {
        "x": (store.x, nodes),
        "edge_attr": (store.edge_attr, edges),
        "y": (store.y, _num_targets(store)),
        "pairs": (store.pairs, pairs),
    }
    for encodings, rows in ((store.pe, nodes), (store.edge_pe, edges), (store.pair_pe, pairs)):
        fields |= {f"encoding '{name}'": (value, rows) for name, value in encodings.items()}
    for name, (value, rows) in fields.items():
        if value is not None and value.shape[0] != rows:
            each = f", one per {store.y_level}" if name == "y" else ""
            raise ValueError(f"{name} must have {rows} rows{each}, received {value.shape[0]}")
    for name, edge_set in store.edge_sets.items():
        if edge_set.ptr.shape != store.node_ptr.shape:
            raise ValueError(
                f"edge set '{name}' must have one entry per graph ({store.num_graphs}), "
                f"received {len(edge_set.ptr) - 1}"
            )
    if store.hops is not None and len(store.hops.row_ptr) != nodes + 1:
        raise ValueError(f"hops must have one list per node ({nodes}), received {len(store.hops.row_ptr) - 1}")
    if store.node_ptr.shape != store.edge_ptr.shape or store.edge_index.shape != (2, edges):
        raise ValueError(
            f"offsets {tuple(store.node_ptr.shape)} and {tuple(store.edge_ptr.shape)} and edge_index "
            f"{tuple(store.edge_index.shape)} do not describe the same graphs"
        )


def _num_targets(store: GraphStore) -> int:
    """Rows that ``y`` has to have."""
    if store.y_level == "pair":
        if "label" not in store.edge_sets:
            raise ValueError("targets of pairs need the pairs they belong to, edge_sets['label']")
        return store.edge_sets["label"].num_pairs
    return store.num_graphs if store.y_level == "graph" else store.num_nodes


def check_ends(edge_index: Tensor, sizes: Tensor, counts: Tensor, what: str = "an edge") -> None:
    """Refuses edges, or other pairs of nodes, that name a node which their graph does not have.

    Args:
        edge_index: (2, E), numbered from 0 inside each graph.
        sizes: (G,) nodes per graph.
        counts: (G,) edges per graph.
        what: one of them, for the message.

    Raises:
        ValueError: naming the graph and the edge.
    """
    limit = torch.repeat_interleave(sizes, counts)
    if not edge_index.numel() or len(limit) != edge_index.shape[1]:
        return  # other lengths are found by check_lengths
    outside = (edge_index >= limit) | (edge_index < 0)
    if bool(outside.any()):
        edge = int(outside.any(0).nonzero()[0])
        graph = int(torch.repeat_interleave(torch.arange(len(counts)), counts)[edge])
        raise ValueError(
            f"graph {graph} has {int(limit[edge])} nodes, but {what} {edge_index[:, edge].tolist()}; node numbers "
            "count from 0 inside each graph"
        )
