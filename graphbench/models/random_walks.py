"""Random walks through the graphs of a batch, drawn where the batch lies, and what is known along them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.structures import GraphBatch

_ANY = 2**62  # choices are below it: its remainders are as good as uniform


@dataclass(frozen=True)
class Walks:
    """W walks of L - 1 steps.

    Attributes:
        nodes: (W, L) int64, numbered through the batch.
        edges: (W, L - 1) int64 edges that were walked; E, one more than there are, for none.
        moving: (W,) bool: a walk that starts on a node without a way out stays there.
    """

    nodes: Tensor
    edges: Tensor
    moving: Tensor


def draw_walks(batch: GraphBatch, steps: int, start_ratio: float = 1.0) -> Walks:
    """Uniform walks that do not turn back, unless the way they came is the only one; drawn anew in every call.

    Args:
        batch: edges are walked from source to target.
        steps: L - 1.
        start_ratio: walks relative to nodes. 1: one from every node, in order; less: one in every graph and the others
            in graphs drawn without repetition of their nodes, each from a uniform node of its graph.
    """
    start = _all_nodes(batch) if start_ratio >= 1 else _some_nodes(batch, start_ratio)
    return _walk(batch, start, torch.randint(_ANY, (steps, len(start)), device=batch.device))


def fixed_walks(batch: GraphBatch, steps: int) -> Walks:
    """Walks from every node, by choices that depend on nothing but the step and the node's number in its graph."""
    node = _all_nodes(batch)
    within = node - batch.ragged.ptr.index_select(0, batch.ragged.graph_id)
    step = torch.arange(1, steps + 1, device=batch.device)
    return _walk(batch, node, mixed(within * 2**20 + step.unsqueeze(1)) & (_ANY - 1))


def mixed(z: Tensor) -> Tensor:
    """SplitMix64's numbers (Steele et al., https://doi.org/10.1145/2660193.2660195) of int64 numbers."""
    z = z * -7046029254386353131
    z = (z ^ ((z >> 30) & (2**34 - 1))) * -4658895280553007687
    z = (z ^ ((z >> 27) & (2**37 - 1))) * -7723592293110705685
    return z ^ ((z >> 31) & (2**33 - 1))


def along(batch: GraphBatch, walks: Walks, window: int) -> Tensor:
    """(W, L, 2 window - 1) what a walk can tell of its last nodes, 0 or 1.

    Column ``window - o`` says whether a node is the one o steps before, o = 1 .. window, and column ``2 window - o``
    whether an edge joins it to that node, o = 2 .. window.
    """
    nodes, keys = walks.nodes, batch.derived(_edge_keys)
    found = torch.zeros(*nodes.shape, 2 * window - 1, dtype=torch.bool, device=nodes.device)
    for back in range(1, min(window, nodes.shape[1] - 1) + 1):
        now, before = nodes[:, back:], nodes[:, :-back]
        found[:, back:, window - back] = now == before
        if back > 1:
            asked = (now * batch.num_nodes + before).contiguous()
            found[:, back:, 2 * window - back] = keys.take(torch.searchsorted(keys, asked)) == asked
    return found


def _walk(batch: GraphBatch, start: Tensor, choices: Tensor) -> Walks:
    """Walks from ``start`` (W,) by ``choices`` (steps, W), of which each node on the way takes the remainder."""
    lists = batch.adjacency().by_source
    degree = lists.ptr.diff()
    # One entry more, where nodes without a way out may look.
    other, entry = (torch.cat([x, x.new_full((1,), batch.num_edges)]) for x in (lists.other, lists.entry))
    now, before = start, torch.full_like(start, -1)
    nodes, edges = [start], []
    for choice in choices:
        ways = degree.index_select(0, now)
        first, number = lists.ptr.index_select(0, now), choice % ways.clamp(min=1)
        back = other.take(first + number) == before
        turned = (number + 1 + choice % (ways - 1).clamp(min=1)) % ways.clamp(min=1)
        place = first + torch.where(back, turned, number)
        now, before = torch.where(ways > 0, other.take(place), now), now
        nodes.append(now)
        edges.append(torch.where(ways > 0, entry.take(place), batch.num_edges))
    moving = degree.index_select(0, start) > 0
    walked = torch.stack(edges, dim=1) if edges else start.new_empty(len(start), 0)
    return Walks(torch.stack(nodes, dim=1), walked, moving)


def _all_nodes(batch: GraphBatch) -> Tensor:
    return torch.arange(batch.num_nodes, device=batch.device)


def _some_nodes(batch: GraphBatch, ratio: float) -> Tensor:
    """(W,) starts, see :func:`draw_walks`."""
    ragged = batch.ragged
    graphs = torch.tensor([graph for graph, size in enumerate(ragged.sizes) if size], dtype=torch.int64)
    graphs = graphs.to(batch.device, non_blocking=True)
    walks = max(len(graphs), math.ceil(ratio * ragged.num_rows))
    drawn = torch.randperm(ragged.num_rows, device=batch.device)[: walks - len(graphs)]
    graph = torch.cat([graphs, ragged.graph_id.index_select(0, drawn)])
    choice = torch.randint(_ANY, (walks,), device=batch.device)
    return ragged.ptr.index_select(0, graph) + choice % ragged.size_tensor.index_select(0, graph)


def _edge_keys(batch: GraphBatch) -> Tensor:
    """(E + 1,) source * N + target of all edges, ascending, and one that is larger than any."""
    source, target = batch.edge_index
    keys = (source * batch.num_nodes + target).sort().values
    return torch.cat([keys, keys.new_full((1,), batch.num_nodes**2)])
