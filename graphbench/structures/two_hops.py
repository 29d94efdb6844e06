"""Pairs of nodes that are two edges apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from graphbench.structures.adjacency import adjacency

_PATHS = 1 << 22
"""Paths that are held at a time."""


def two_hop_edges(edge_index: Tensor, num_nodes: int, *, direct: bool) -> Tensor:
    """Pairs of different nodes joined by a path of two edges, each pair once, sorted by target and source.

    Takes the time of all such paths, sum of in-degree times out-degree, and the memory of the pairs. How many there
    are is known to the device only, which is asked: call it once per batch (:meth:`.GraphBatch.two_hop_adjacency`).

    Args:
        edge_index: (2, E) int64, sources and targets; loops among the edges count for nothing.
        num_nodes: N.
        direct: True adds the pairs that an edge joins, False leaves them out (distance exactly two).

    Returns:
        (2, P) int64, sources and targets.
    """
    pair = torch.unique(torch.cat([torch.unique(piece) for piece in _paths(edge_index, num_nodes)]))
    wanted = pair % max(num_nodes, 1) != pair // max(num_nodes, 1)
    if not direct:
        wanted &= ~torch.isin(pair, edge_index[1] * num_nodes + edge_index[0])
    return _ends(pair[wanted], num_nodes)


def more_walk_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Pairs with a positive entry of A A - A - I: more walks of two edges than of one or none.

    Beside pairs at distance two these are nodes with two or more neighbours, with themselves, and neighbours that have
    two or more in common. Time and memory as :func:`two_hop_edges`.

    Args:
        edge_index: (2, E) int64, sources and targets, each pair once; loops among the edges count for nothing.
        num_nodes: N.

    Returns:
        (2, P) int64, sources and targets.
    """
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    pieces = [torch.unique(piece, return_counts=True) for piece in _paths(edge_index, num_nodes)]
    pair, place = torch.unique(torch.cat([pairs for pairs, _ in pieces]), return_inverse=True)
    paths = torch.zeros_like(pair).index_add_(0, place, torch.cat([counts for _, counts in pieces]))
    # A A + 2 A + I of them, with the loops
    joined = torch.isin(pair, edge_index[1] * num_nodes + edge_index[0])
    itself = pair % max(num_nodes, 1) == pair // max(num_nodes, 1)
    return _ends(pair[paths > 3 * joined + 2 * itself], num_nodes)


def _paths(edge_index: Tensor, num_nodes: int) -> Iterator[Tensor]:
    """Numbers ``target * N + source`` of all paths of two steps, some at a time; every node has a loop.

    So a path is one of one edge or two, or stays where it is.
    """
    steps = adjacency(edge_index, num_nodes, self_loops=True).by_target
    arriving = steps.ptr[1:] - steps.ptr[:-1]
    middle, target = steps.other, torch.repeat_interleave(arriving)
    last = arriving[middle].cumsum(0)
    total = int(last[-1]) if last.numel() else 0
    cuts = torch.searchsorted(last, torch.arange(_PATHS, max(total, _PATHS), _PATHS, device=last.device)).tolist()
    yield edge_index.new_empty(0)
    for first, end in pairwise([0, *cuts, middle.numel()]):
        count = arriving[middle[first:end]]
        step = torch.repeat_interleave(count)  # number of the second step of every path, within the piece
        place = torch.arange(step.numel(), device=step.device) - (count.cumsum(0) - count)[step]
        source = steps.other[steps.ptr[middle[first:end]][step] + place]
        yield target[first:end][step] * num_nodes + source


def _ends(pair: Tensor, num_nodes: int) -> Tensor:
    """(2, P) sources and targets of numbered pairs."""
    return torch.stack([pair % max(num_nodes, 1), pair // max(num_nodes, 1)])
