"""Subgraphs of one large graph as batches; features and targets are read for their nodes only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.structures import Features, GraphBatch, Ragged, SparseRows


def check_one_graph(store: GraphStore, sampler: str, level: Literal["node", "pair"] = "node") -> None:
    """Refuses stores that cannot be cut by nodes.

    Args:
        store: the graphs.
        sampler: name of the sampler, for the message.
        level: kind of example that has a target; ``pair``: those of the edge set ``label``.

    Raises:
        ValueError: several graphs, other targets, or stored numbers about pairs of nodes.
    """
    if store.num_graphs != 1 or store.y_level != level or store.y is None:
        raise ValueError(
            f"sampler {sampler} cuts one graph with a target per {level}; this data set has {store.num_graphs} graphs "
            f"with targets per {store.y_level}"
        )
    if store.num_nodes >= 2**31:
        raise ValueError(f"sampler {sampler} numbers nodes with 32 bits; this graph has {store.num_nodes}")
    asked = ("label",) if level == "pair" else ()
    whole = [f"edge set '{name}'" for name in store.edge_sets if name not in asked]
    whole += [f"encoding '{name}' of pairs of nodes" for name in store.pair_pe]
    whole += ["distances of pairs of nodes"] if store.pairs is not None else []
    if whole:
        raise ValueError(f"sampler {sampler} cannot cut {', '.join(whole)} along with the graph; use full_batch")


def subgraph(
    store: GraphStore, nodes: Tensor, edge_index: Tensor, edges: Tensor | None, sizes: Sequence[int] | None = None
) -> GraphBatch:
    """Some nodes and edges of the only graph of a store.

    Args:
        store: see :func:`check_one_graph`.
        nodes: (n,) numbers of the nodes; node i of the batch is ``nodes[i]``.
        edge_index: (2, e) edges among them, in numbers of the batch.
        edges: (e,) numbers of these edges in the store; needed where :func:`has_edge_rows`.
        sizes: nodes of each graph of the batch, one after the other; None: they are one graph.
    """
    return GraphBatch(
        ragged=Ragged.from_sizes([nodes.numel()] if sizes is None else sizes),
        edge_index=edge_index.to(torch.int64),
        **node_rows(store, nodes),
        **edge_rows(store, edges),
    )


def node_rows(store: GraphStore, nodes: Tensor | slice) -> dict[str, Any]:
    """The fields of a batch that have one row per node."""
    return {
        "x": _read(store.x, nodes),
        "y": _read(store.y, nodes, widen=False) if store.y_level == "node" else None,
        "pe": {name: _read(value, nodes) for name, value in store.pe.items()},
    }


def edge_rows(store: GraphStore, edges: Tensor | None) -> dict[str, Any]:
    """The fields of a batch that have one row per edge."""
    if not has_edge_rows(store):
        return {}
    assert edges is not None
    return {
        "edge_attr": _read(store.edge_attr, edges),
        "edge_pe": {name: _read(value, edges) for name, value in store.edge_pe.items()},
    }


def has_edge_rows(store: GraphStore) -> bool:
    """Whether something is stored for every edge."""
    return store.edge_attr is not None or bool(store.edge_pe)


def _read(values: Features | None, rows: Tensor | slice, widen: bool = True) -> Features | None:
    """Rows in the types of a batch, whatever narrow ones they are stored in."""
    if values is None:
        return None
    taken = values[rows] if isinstance(rows, slice) else values.index_select(0, rows)
    if isinstance(taken, SparseRows):
        return taken
    if taken.is_floating_point():
        return taken.to(torch.get_default_dtype()) if widen and taken.element_size() < 4 else taken
    return taken if taken.dtype is torch.bool else taken.to(torch.int64)
