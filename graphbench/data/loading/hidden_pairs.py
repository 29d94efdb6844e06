"""Edges of a graph that a link task asks about: taken out, or messages would carry the answers."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore


def without_hidden_pairs(store: GraphStore, splits: Splits) -> GraphStore:
    """The graphs without the edges that are pairs of validation or test, in either direction.

    Args:
        store: graphs with targets per pair.
        splits: numbers of pairs.

    Returns:
        The store itself where there are none, as in published link data sets, whose graphs consist of training edges.

    Raises:
        ValueError: there are some, and the store has numbers that were computed with them.
    """
    asked = store.gather(range(store.num_graphs))
    pairs = asked.edge_sets["label"].index[:, torch.cat([splits.val, splits.test])]
    seen = torch.isin(*(_unordered(ends, asked.num_nodes) for ends in (asked.edge_index, pairs)))
    if not bool(seen.any()):
        return store
    computed = (store.pe, store.edge_pe, store.pair_pe, store.computed, store.pairs is not None, store.hops is not None)
    if any(computed):
        raise ValueError(
            f"{int(seen.sum())} edges of the graph are asked about in validation or test, and encodings in the data "
            "were computed with them; leave the edges or the encodings out of the data"
        )
    kept = ~seen
    return store.replace(
        edge_index=store.edge_index[:, kept],
        edge_ptr=torch.cat([torch.zeros(1, dtype=torch.int64), kept.cumsum(0)])[store.edge_ptr],
        edge_attr=None if store.edge_attr is None else store.edge_attr[kept],
    )


def count_answered(store: GraphStore) -> int:
    """Number of labelled pairs that are edges of their graphs, in either direction: messages carry their answers."""
    batch = store.gather(range(store.num_graphs))
    ends = (batch.edge_sets["label"].index, batch.edge_index)
    return int(torch.isin(*(_unordered(each, batch.num_nodes) for each in ends)).sum())


def count_repeated(store: GraphStore) -> int:
    """Number of labelled pairs beyond the first of those with the same two nodes, in either direction."""
    batch = store.gather(range(store.num_graphs))
    codes = _unordered(batch.edge_sets["label"].index, batch.num_nodes)
    return len(codes) - len(codes.unique())


def _unordered(ends: Tensor, nodes: int) -> Tensor:
    """(P,) a number for every pair (2, P), the same for both directions."""
    return ends.amin(0) * nodes + ends.amax(0)
