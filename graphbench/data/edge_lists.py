"""Operations on lists of directed edges (2, E) that readers of data sets need.

Repetition matters: a graph with every edge listed twice is another input to a sum over neighbours. So what keeps one
copy of an edge (:func:`coalesce`, :func:`to_undirected`) and what appends without looking (:func:`with_reverse_edges`,
:func:`with_self_loops`) have different names.
"""

from __future__ import annotations

import torch
from torch import Tensor


def coalesce(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Every edge once, sorted by source and target.

    Args:
        edge_index: (2, E) int64, nodes 0 .. num_nodes-1.
        num_nodes: nodes of the graph.

    Raises:
        ValueError: an edge names a node that does not exist.
    """
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise ValueError(f"an edge names node {int(edge_index.max())}, but there are {num_nodes} nodes")
    code = (edge_index[0] * num_nodes + edge_index[1]).unique()
    return torch.stack([code.div(num_nodes, rounding_mode="floor"), code % num_nodes]) if num_nodes else edge_index


def to_undirected(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The undirected graph: every edge and its reverse, each once, sorted.

    Args:
        edge_index: (2, E) int64, nodes 0 .. num_nodes-1.
        num_nodes: nodes of the graph.
    """
    return coalesce(with_reverse_edges(edge_index), num_nodes)


def with_reverse_edges(edge_index: Tensor) -> Tensor:
    """(2, 2E): the edges, then the reverse of each, whether or not it was there already."""
    return torch.cat([edge_index, edge_index.flip(0)], dim=1)


def with_self_loops(edge_index: Tensor) -> Tensor:
    """The edges, then one self loop for every node that has an edge, whether or not it was there already."""
    return torch.cat([edge_index, edge_index.unique().expand(2, -1)], dim=1)


def without_self_loops(edge_index: Tensor) -> Tensor:
    """The edges between different nodes, order kept."""
    return edge_index[:, edge_index[0] != edge_index[1]]
