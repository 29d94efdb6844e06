"""Data sets of one graph with labelled nodes: card, store, and the preparations that protocols differ in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphbench.data.card import DatasetCard
from graphbench.data.edge_lists import to_undirected, with_reverse_edges, with_self_loops
from graphbench.data.store import GraphStore
from graphbench.structures import Features, SparseRows

RANDOM_MODES = ("random", "random-class", "random-permutation", "random-split", "fixed", "sliced")
"""Split modes that need nothing but the nodes and their labels."""


class NodeFacts(NamedTuple):
    """Published counts of a graph; ``edges`` are directed, as the cleaned files list them."""

    nodes: int
    edges: int
    features: int
    classes: int


def node_card(name: str, facts: NodeFacts, **more: Any) -> DatasetCard:
    """The card of a node classification data set.

    Args:
        name: name of the data set, as printed in tables.
        facts: published numbers.
        more: fields of :class:`~graphbench.data.card.DatasetCard` that differ from accuracy on one class per node and
            published splits.
    """
    known: dict[str, Any] = {
        "task": "node",
        "task_type": "classification",
        "metric": "accuracy",
        "maximize": True,
        "node_in": facts.features,
        "edge_in": 0,
        "out_dim": 1 if facts.classes == 2 else facts.classes,
        "transductive": True,
        "split_modes": ("standard", *RANDOM_MODES),
        "statistics": {"graphs": 1, "nodes": facts.nodes, "edges": facts.edges},
    }
    return DatasetCard(name=name, **(known | more))


def node_store(
    x: np.ndarray | Features, edge_index: Tensor, y: np.ndarray | Tensor, edge_attr: np.ndarray | Tensor | None = None
) -> GraphStore:
    """A store of one graph.

    Args:
        x: (N, F) features.
        edge_index: (2, E) directed edges.
        y: one row per node.
        edge_attr: (E, D), optional.
    """
    return GraphStore.from_arrays(
        [len(y)], [edge_index.shape[1]], edge_index, x=x, edge_attr=edge_attr, y=y, y_level="node"
    )


def prepared(
    store: GraphStore,
    *,
    normalize_features: bool = False,
    undirected: bool = False,
    add_reverse_edges: bool = False,
    add_self_loops: bool = False,
) -> GraphStore:
    """The graph as a protocol defines it, after it was compared with its card.

    Args:
        store: one graph without edge features.
        normalize_features: divide every row of the features by its sum.
        undirected: add missing reverse edges, each edge once.
        add_reverse_edges: append the reverse of every edge even where it is there already (Exphormer).
        add_self_loops: append a self loop for every node that has an edge (Exphormer).
    """
    if normalize_features:
        assert store.x is not None
        store = store.replace(x=_divided_by_sums(store.x))
    if not (undirected or add_reverse_edges or add_self_loops):
        return store
    edge_index = store.edge_index.to(torch.int64)
    if undirected:
        edge_index = to_undirected(edge_index, store.num_nodes)
    if add_reverse_edges:
        edge_index = with_reverse_edges(edge_index)
    if add_self_loops:
        edge_index = with_self_loops(edge_index)
    offsets = torch.tensor([0, edge_index.shape[1]])
    return store.replace(edge_index=edge_index.to(torch.int32), edge_ptr=offsets)


def _divided_by_sums(x: Features) -> Features:
    """Every row divided by its sum."""
    if not isinstance(x, SparseRows):
        return x / x.sum(1, keepdim=True).clamp_min(1e-12)
    total = torch.zeros(len(x), dtype=x.dtype).index_add_(0, x.row, x.value).clamp_min(1e-12)
    return x.with_values(x.value / total[x.row])
