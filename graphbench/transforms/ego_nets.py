"""Edges inside the ego net of every node: what networks over subgraphs pass messages along."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.base import Level, Transform
from graphbench.transforms.hop_neighbors import HopNeighbors

_MEMBERS = 1 << 20  # nodes of the nets of one block of graphs, about (some 100 bytes each)


@register("EgoNetEdges")
class EgoNetEdges(Transform):
    """Edges of the ego net of every node k: both ends are at most ``hops`` hops away from k.

    The nets' nodes are the lists of :class:`~graphbench.transforms.hop_neighbors.HopNeighbors` with this cut-off: a
    directed edge is walked from source to target only.

    Args:
        hops: 1 .. 253.

    Returns:
        ``index`` (2, M) int32, the root k and the source of an edge in its net, ``ptr`` (G+1,), and ``attr`` (M,) int32
        the number of the edge inside its graph; by root and by source.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("index", "ptr", "attr")
    level: Level = "edge_set"

    def __init__(self, hops: int = 3) -> None:
        HopNeighbors(hops)  # refuses what it does not take
        self.hops = hops

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Edges inside the nets of all graphs of a store."""
        lists = HopNeighbors(self.hops)(store)
        row_ptr, col = lists["row_ptr"].numpy(), lists["col"].numpy()
        found = [_inside(store, row_ptr, col, *block) for block in _blocks(store, row_ptr)]
        root, source, edge, counts = (
            np.concatenate([np.empty(0, dtype), *column])
            for dtype, column in zip((np.int32, np.int32, np.int32, np.int64), zip(*found) if found else ((),) * 4)
        )
        return {
            "index": torch.from_numpy(np.stack([root, source])),
            "ptr": torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])),
            "attr": torch.from_numpy(edge),
        }


def _blocks(store: GraphStore, row_ptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last graph, exclusive, of blocks whose nets have about as many nodes."""
    members = row_ptr[store.node_ptr.numpy()]
    first = 0
    while first < store.num_graphs:
        last = max(first + 1, int(np.searchsorted(members, members[first] + _MEMBERS, side="right")) - 1)
        yield first, last
        first = last


def _inside(
    store: GraphStore, row_ptr: np.ndarray, col: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Root, source and number of the edges in the nets of some graphs, and how many each graph has."""
    node_ptr, edge_ptr = store.node_ptr.numpy()[first : last + 1], store.edge_ptr.numpy()[first : last + 1]
    sizes, edges = np.diff(node_ptr), np.diff(edge_ptr)
    nodes = int(sizes.sum())
    # Everything is numbered from the first node and edge of the block on.
    start_of_node = np.repeat(node_ptr[:-1] - node_ptr[0], sizes)
    ends = store.edge_index[:, edge_ptr[0] : edge_ptr[-1]].numpy().astype(np.int64)
    ends += np.repeat(node_ptr[:-1] - node_ptr[0], edges)
    by_source = np.argsort(ends[0], kind="stable")
    degree = np.bincount(ends[0], minlength=nodes)
    first_edge = np.cumsum(degree) - degree
    listed = row_ptr[node_ptr[0] : node_ptr[-1] + 1]
    root = np.repeat(np.arange(nodes), np.diff(listed))
    member = col[listed[0] : listed[-1]] + start_of_node[root]
    # Every edge that leaves a node of a net, once per net.
    leaving = degree[member]
    place = np.arange(leaving.sum()) - np.repeat(np.cumsum(leaving) - leaving, leaving)
    edge = by_source[place + np.repeat(first_edge[member], leaving)]
    root_of_edge = np.repeat(root, leaving)
    keys, wanted = root * nodes + member, root_of_edge * nodes + ends[1, edge]
    found = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
    edge, root_of_edge = edge[found], root_of_edge[found]
    graph = np.repeat(np.arange(last - first), sizes)[root_of_edge]
    return (
        (root_of_edge - start_of_node[root_of_edge]).astype(np.int32),
        (ends[0, edge] - start_of_node[root_of_edge]).astype(np.int32),
        (edge - (edge_ptr[:-1] - edge_ptr[0])[graph]).astype(np.int32),
        np.bincount(graph, minlength=last - first),
    )
