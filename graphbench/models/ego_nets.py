"""The ego nets of all nodes of a batch side by side, for models that run a network in each of them."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from graphbench.ops.propagate import gather, mean_at_target, sum_at_target
from graphbench.structures import GraphBatch, Ragged
from graphbench.structures.adjacency import Adjacency, adjacency

Pool: TypeAlias = Literal["add", "mean"]


def edges_in_nets(batch: GraphBatch) -> tuple[Tensor, Tensor]:
    """Edges in the nets of all nodes: their roots (M',) and their numbers (M',), both counted through the batch.

    Raises:
        ValueError: the batch has no such edge set.
    """
    if "EgoNetEdges" not in batch.edge_sets:
        raise ValueError("networks over ego nets read the edge set EgoNetEdges, which its transform computes")
    edges = batch.edge_sets["EgoNetEdges"]
    assert edges.attr is not None
    root = edges.index[0]
    graph = batch.ragged.graph_id.index_select(0, root)
    return root, edges.attr + batch.derived(first_edges).index_select(0, graph)


def first_edges(batch: GraphBatch) -> Tensor:
    """(G,) int64, the first edge of every graph; edges are grouped by graph."""
    graphs = torch.arange(batch.num_graphs, device=batch.device)
    return torch.searchsorted(batch.ragged.graph_id.index_select(0, batch.edge_index[0]), graphs)


class EgoNets:
    """A copy of every node for every net that it is in; ask by ``batch.derived(EgoNets)``.

    Worked example: the path 0 - 1 - 2 with nets of one hop has the copies (root, node) 00 01, 10 11 12, 21 22, and as
    edges 0->1, 1->0 in the net of 0, all four in that of 1, and 1->2, 2->1 in that of 2.

    Args:
        batch: batch with the edge set ``EgoNetEdges``, the edges inside all nets, and ``hops``, the nodes of all nets.
        whole: a copy of every node for every node of its graph: those outside of a net are there without edges. The
            batch then needs no ``hops``.

    Attributes:
        hop: (M,) int64 distance of every copy from its root; copies by root and node. None where ``whole``.
        members: copy m as an edge from its node to its root.
        centre: (N,) the copy of every root in its own net.
        edge: (M',) edge of the batch behind every edge in a net.
        inside: copies as the nodes of one graph, joined by these edges.

    Raises:
        ValueError: the batch has no nets.
    """

    def __init__(self, batch: GraphBatch, whole: bool = False) -> None:
        nodes = torch.arange(batch.num_nodes, device=batch.device)
        if whole:
            (root, node), self.hop = batch.ragged.pair_ends, None
        elif batch.hops is None:
            raise ValueError("networks over ego nets read neighbour lists, which the transform HopNeighbors computes")
        else:
            node, self.hop = batch.hops.col, batch.hops.hop.long()
            root = torch.repeat_interleave(nodes, batch.hops.row_ptr.diff(), output_size=len(node))
        m = self.members = adjacency(torch.stack([node, root]), batch.num_nodes)
        self._nets = Adjacency(m.num_nodes, m.target, m.source, m.by_source, m.by_target, None)
        copies = root * batch.num_nodes + node  # ascending
        self.centre = torch.searchsorted(copies, nodes * (batch.num_nodes + 1))
        net, self.edge = edges_in_nets(batch)
        ends = batch.edge_index.index_select(1, self.edge)
        self.inside = GraphBatch(
            Ragged.from_sizes([len(node)], batch.device), torch.searchsorted(copies, net * batch.num_nodes + ends)
        )

    @cached_property
    def others(self) -> Tensor:
        """(M - N,) the copies that are not the centre of their net."""
        before = self.centre - torch.arange(len(self.centre), device=self.centre.device)  # others before each centre
        number = torch.arange(self.members.num_edges - len(self.centre), device=self.centre.device)
        return number + torch.searchsorted(before, number, right=True)

    def copied(self, h: Tensor) -> Tensor:
        """(M, ...) the rows of nodes (N, ...) for each of their copies."""
        return gather(self.members, h, "source")

    def to_nets(self, h: Tensor) -> Tensor:
        """(M, ...) the rows of roots (N, ...) for each node of their nets."""
        return gather(self.members, h, "target")

    def over_nets(self, u: Tensor, pool: Pool) -> Tensor:
        """(N, ...) sum or mean over the net of every node."""
        return _POOLS[pool](self.members, u)

    def over_copies(self, u: Tensor, pool: Pool) -> Tensor:
        """(N, ...) sum or mean over the copies of every node."""
        return _POOLS[pool](self._nets, u)


_POOLS = {"add": sum_at_target, "mean": mean_at_target}
