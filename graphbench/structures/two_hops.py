"""Pairs of nodes that are two edges apart."""

from __future__ import annotations

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
    # With a loop at every node, a path of two steps is one of one edge or two.
    steps = adjacency(edge_index, num_nodes, self_loops=True).by_target
    arriving = steps.ptr[1:] - steps.ptr[:-1]
    middle, target = steps.other, torch.repeat_interleave(arriving)
    last = arriving[middle].cumsum(0)
    total = int(last[-1]) if last.numel() else 0
    cuts = torch.searchsorted(last, torch.arange(_PATHS, max(total, _PATHS), _PATHS, device=last.device)).tolist()
    found = [edge_index.new_empty(0)]
    for first, end in pairwise([0, *cuts, middle.numel()]):
        count = arriving[middle[first:end]]
        step = torch.repeat_interleave(count)  # number of the second step of every path, within the piece
        place = torch.arange(step.numel(), device=step.device) - (count.cumsum(0) - count)[step]
        source = steps.other[steps.ptr[middle[first:end]][step] + place]
        found.append(torch.unique(target[first:end][step] * num_nodes + source))
    pair = torch.unique(torch.cat(found))
    wanted = pair % max(num_nodes, 1) != pair // max(num_nodes, 1)
    if not direct:
        wanted &= ~torch.isin(pair, edge_index[1] * num_nodes + edge_index[0])
    pair = pair[wanted]
    return torch.stack([pair % max(num_nodes, 1), pair // max(num_nodes, 1)])
