"""Motifs of a batch: a random cover of its nodes by them, and adjacency matrices with an order of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from graphbench.models.random_walks import mixed
from graphbench.structures import GraphBatch
from graphbench.structures.substructure_kinds import CYCLE, NEIGHBOURHOOD

SETS = ("Motifs", "MotifNodes")
Draw: TypeAlias = Callable[[], Tensor]
"""(S,) a number in [0, 1) for every motif, another one in every call."""


class MotifLists:
    """The S motifs of all graphs of a batch; ask by ``batch.derived(MotifLists)``.

    Args:
        batch: batch with the edge sets ``Motifs`` and ``MotifNodes``.

    Attributes:
        graph: (S,) the graph of every motif.
        within: (S,) its number inside the graph.
        kind: (S,) see :mod:`graphbench.structures.substructure_kinds`.
        motif: (M,) the motif of every membership, ascending.
        node: (M,) its node.
        sizes: (G,) motifs of every graph.

    Raises:
        ValueError: the batch has no motifs.
    """

    def __init__(self, batch: GraphBatch) -> None:
        if any(name not in batch.edge_sets for name in SETS):
            raise ValueError(f"tokens of motifs read the edge sets {' and '.join(SETS)}, which transforms compute")
        motifs, members = (batch.edge_sets[name] for name in SETS)
        assert motifs.attr is not None
        assert members.attr is not None
        self.graph = batch.ragged.graph_id.index_select(0, motifs.index[0])
        self.kind, self.sizes = motifs.attr, motifs.ptr.diff()
        number = torch.arange(len(self.graph), device=batch.device)
        self.within = number - motifs.ptr.index_select(0, self.graph)
        self.node = members.index[0]
        of_member = batch.ragged.graph_id.index_select(0, self.node)
        self.motif = members.attr + motifs.ptr.index_select(0, of_member)

    def rank(self, key: Tensor, among: Tensor) -> Tensor:
        """(S,) place of the motifs of a graph that are in ``among`` (S,) by ascending key (S,); S for all others."""
        order = key.masked_fill(~among, torch.inf).argsort(stable=True)
        order = order.index_select(0, self.graph.index_select(0, order).argsort(stable=True))
        number = torch.arange(len(order), device=order.device)
        first = self.sizes.cumsum(0) - self.sizes
        place = torch.empty_like(number).index_copy_(0, order, number - first.index_select(0, self.graph))
        return place.masked_fill(~among, len(order))

    def fixed(self) -> Draw:
        """Random numbers of a graph, equal in every batch, made of the numbers of its motifs and of calls."""
        calls = 0

        def draw() -> Tensor:
            nonlocal calls
            calls += 1
            return (mixed(self.within * 2**20 + calls) & (2**53 - 1)).double() / 2**53

        return draw

    def drawn(self) -> Draw:
        """Numbers of torch's generator."""
        return lambda: torch.rand(len(self.graph), dtype=torch.float64, device=self.graph.device)


def cover(lists: MotifLists, batch: GraphBatch, redundancy: int, draw: Draw) -> Tensor:
    """(S,) bool: motifs that together cover every node at least ``redundancy`` times, where that is possible.

    Equations, for a graph of n nodes and S motifs, of which half (drawn) are left out, and more of those that are no
    neighbourhoods until these are as many; k = max(3 n // S, 1), c_v how many chosen motifs have node v::

        first    max(n // 5, 1) cycles (drawn) of all, and one motif of all
        then     k (drawn) of the 2 k that have most nodes with the smallest c, until c >= redundancy, none has any, or
                 n are chosen

    A device other than the host goes through as many rounds as there can be, and nobody waits for it. Source:
    ``min_set_cover_random`` of DeepGraph's code, which has no such bound (1.6 % of the covers of ZINC exceed it).
    """
    nodes, own = batch.ragged.size_tensor, torch.ones_like(lists.graph, dtype=torch.bool)
    near, cycles = lists.kind == NEIGHBOURHOOD, lists.kind == CYCLE
    others = _count(lists, ~near) - _count(lists, near)
    has_near = _count(lists, near) > 0
    left_out = lists.rank(draw(), own) < (lists.sizes // 2).index_select(0, lists.graph)
    surplus = torch.where(has_near, others.clamp(min=0), 0)
    left_out |= lists.rank(draw(), ~near) < surplus.index_select(0, lists.graph)
    chosen = lists.rank(draw(), cycles) < (nodes // 5).clamp(min=1).index_select(0, lists.graph)
    chosen |= lists.rank(draw(), own) < 1
    each = (3 * nodes).div(lists.sizes.clamp(min=1), rounding_mode="floor").clamp(min=1)
    graph = batch.ragged.graph_id
    for _ in range(batch.ragged.max_size):
        counts = _at_nodes(lists, batch, chosen)
        least = counts.new_full((batch.num_graphs,), torch.iinfo(counts.dtype).max)
        least = least.scatter_reduce(0, graph, counts, "amin")
        unused = counts == least.index_select(0, graph)
        score = torch.zeros_like(lists.graph).index_add(0, lists.motif, unused.index_select(0, lists.node).long())
        missing = least.index_select(0, lists.graph) < redundancy
        usable = (score > 0) & ~chosen & ~left_out & missing
        if batch.device.type == "cpu" and not bool(usable.any()):
            break
        best = lists.rank(draw() - score, usable) < 2 * each.index_select(0, lists.graph)
        room = torch.minimum(each, (nodes - _count(lists, chosen)).clamp(min=0))
        chosen = chosen | (lists.rank(draw(), best) < room.index_select(0, lists.graph))
    return chosen


def places(lists: MotifLists, batch: GraphBatch, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Places for motifs, as many as there are nodes: of every motif (S,), and the motif of every place (N,).

    The chosen motifs of a graph have its first places, in their order. Others have place N; places that nobody has
    have motif S.
    """
    motifs, last = len(lists.graph), batch.num_nodes
    number = torch.arange(motifs, device=batch.device)
    at = batch.ragged.ptr.index_select(0, lists.graph) + lists.rank(number.double(), chosen)
    at = torch.where(chosen, at, last)
    return at, number.new_full((last + 1,), motifs).scatter(0, at, number)[:last]


def ordered_adjacency(lists: MotifLists, batch: GraphBatch, chosen: Tensor, size: int, chance: Tensor) -> Tensor:
    """(T, size, size) adjacency of some motifs (T,), nodes by breadth-first search, 0 beyond them and for number S.

    A search begins at a node of the smallest degree inside the motif and takes neighbours by ascending degree; ties are
    broken by chance.

    Args:
        lists: motifs.
        batch: the graphs.
        chosen: (T,) numbers of motifs, or S for none.
        size: most nodes of a motif.
        chance: (S,) a number in [0, 1) for every motif, from which those of its nodes are made.

    Raises:
        ValueError: a motif has more nodes.
    """
    device, count = batch.device, lists.motif.new_zeros(len(lists.graph) + 1)
    count = count.index_add(0, lists.motif, torch.ones_like(lists.motif))
    if device.type == "cpu" and len(chosen) and int(count.index_select(0, chosen).max()) > size:
        raise ValueError(f"gt.DeepGraph.max_nodes: a motif has {int(count.max())} nodes, allowed are {size}")
    first = count.cumsum(0) - count
    column = torch.arange(size, device=device)
    there = column < count.index_select(0, chosen).unsqueeze(1)
    # One node more, for motifs and columns without any.
    place = (first.index_select(0, chosen).unsqueeze(1) + column).clamp(max=len(lists.node))
    node = torch.cat([lists.node, lists.node.new_zeros(1)]).take(place)
    keys = batch.derived(_edge_keys)
    asked = node.unsqueeze(2) * batch.num_nodes + node.unsqueeze(1)
    joined = keys.take(torch.searchsorted(keys, asked)) == asked
    joined &= there.unsqueeze(1) & there.unsqueeze(2) & (column != column.unsqueeze(1))
    degree = joined.sum(2)
    chance = torch.cat([chance, chance.new_zeros(1)]).index_select(0, chosen)
    tie = (chance.unsqueeze(1) * 2**20 * (column + 1)) % 1
    key = (degree + tie).masked_fill(~there, torch.inf)
    position = _search_positions(joined, key)
    order = position.argsort(1)
    rows = joined.gather(1, order.unsqueeze(2).expand_as(joined))
    return rows.gather(2, order.unsqueeze(1).expand_as(joined))


def _search_positions(joined: Tensor, key: Tensor) -> Tensor:
    """(T, L) place of every node in its search, L for those that it does not reach."""
    size = joined.shape[1]
    column = torch.arange(size, device=joined.device)
    seen = column == key.argmin(1, keepdim=True)
    position = torch.where(seen, 0, size)
    for step in range(size):
        now = position == step
        new = (now.unsqueeze(2) & joined).any(1) & ~seen
        behind = key.masked_fill(~new, torch.inf).argsort(1).argsort(1)
        position = torch.where(new, seen.sum(1, keepdim=True) + behind, position)
        seen = seen | new
    return position


def _count(lists: MotifLists, which: Tensor) -> Tensor:
    return torch.zeros_like(lists.sizes).index_add(0, lists.graph, which.long())


def _at_nodes(lists: MotifLists, batch: GraphBatch, chosen: Tensor) -> Tensor:
    """(N,) chosen motifs of every node."""
    has = chosen.index_select(0, lists.motif).long()
    return torch.zeros(batch.num_nodes, dtype=torch.int64, device=batch.device).index_add(0, lists.node, has)


def _edge_keys(batch: GraphBatch) -> Tensor:
    """(2 E + 1,) both ends of all edges, in both directions, as one ascending number each, and one that is larger."""
    source, target = batch.edge_index
    both = torch.cat([source * batch.num_nodes + target, target * batch.num_nodes + source])
    return torch.cat([both.sort().values, both.new_full((1,), batch.num_nodes**2)])
