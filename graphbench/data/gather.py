"""Batches cut out of a store: one index per level (graph, node, edge, pair of nodes) and no loop over graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from graphbench.data.row_selection import GraphSelection, RowSelection, to_device, widened
from graphbench.structures import GraphBatch, PairBlocks, Ragged

if TYPE_CHECKING:
    from graphbench.data.store import GraphStore


def gather(store: GraphStore, graphs: np.ndarray) -> GraphBatch:
    """Some graphs of a store as one batch, see :meth:`~graphbench.data.store.GraphStore.gather`.

    Args:
        store: the graphs.
        graphs: (B,) int64 graph numbers.

    Raises:
        IndexError: a number is out of range.
    """
    if len(graphs) and (graphs.min() < 0 or graphs.max() >= store.num_graphs):
        raise IndexError(
            f"graph numbers must lie in 0 .. {store.num_graphs - 1}, received {graphs.min()} .. {graphs.max()}"
        )
    selection = GraphSelection(graphs, store.device)
    nodes, edges = selection.rows(store.node_ptr.numpy()), selection.rows(store.edge_ptr.numpy())
    first_node, sizes = nodes.offsets[:-1], tuple(nodes.counts.tolist())
    pairs = selection.rows(store.pair_ptr) if store.pairs is not None or store.pair_pe else None
    return GraphBatch(
        ragged=Ragged(to_device(nodes.offsets, store.device), sizes),
        edge_index=edges.take_nodes(store.edge_index, first_node),
        x=None if store.x is None else widened(nodes.take(store.x)),
        edge_attr=None if store.edge_attr is None else widened(edges.take(store.edge_attr)),
        y=None if store.y is None else widened(_target_rows(store, selection, nodes).take(store.y)),
        pe={name: nodes.take(value) for name, value in store.pe.items()},
        edge_pe={name: edges.take(value) for name, value in store.edge_pe.items()},
        pair_pe={name: pairs.take(value) for name, value in store.pair_pe.items()} if pairs else {},
        edge_sets={name: edge_set.gather(selection, first_node) for name, edge_set in store.edge_sets.items()},
        pairs=PairBlocks(pairs.take(store.pairs), sizes) if pairs and store.pairs is not None else None,
        hops=None if store.hops is None else store.hops.gather(selection.rows(store.hop_ptr), nodes),
        # Numbered from 0 inside each graph, as nodes are.
        edge_order=None if store.edge_order is None else edges.take_nodes(store.edge_order, edges.offsets[:-1]),
    )


def sorted_edges(store: GraphStore) -> Tensor:
    """(2, E) int32 on the host: the edges of every graph sorted by target and by source, numbered inside the graph."""
    graph = np.repeat(np.arange(store.num_graphs), store.edge_counts.numpy())
    source, target = store.edge_index.cpu().numpy()
    first = store.edge_ptr.numpy()[graph]
    # Edges are grouped by graph, the key that counts first (and is named last): every graph stays where it is.
    orders = [np.lexsort((end, graph)) - first for end in (target, source)]
    return torch.from_numpy(np.stack(orders).astype(np.int32))


def _target_rows(store: GraphStore, selection: GraphSelection, nodes: RowSelection) -> RowSelection:
    if store.y_level == "pair":
        return store.edge_sets["label"].rows(selection)
    return nodes if store.y_level == "node" else selection.per_graph()
