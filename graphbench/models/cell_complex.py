"""Nodes, undirected edges and rings of a batch in one numbering, for models whose messages go between cells."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.models.ego_nets import Pool, first_edges
from graphbench.ops.propagate import gather, mean_at_target, propagate, sum_at_target
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency, adjacency

DIMENSIONS = 3
SETS = ("UndirectedEdges", "Rings", "RingEdges")


class CellComplex:
    """N nodes, C undirected edges, R rings of a batch, numbered in this order; ask by ``batch.derived(CellComplex)``.

    Worked example, a triangle: cells 0 1 2 are its nodes, 3 4 5 its edges 01, 02, 12, and 6 is the ring. Boundaries are
    (0, 3) (1, 3), (0, 4) (2, 4), (1, 5) (2, 5), and (3, 6) (4, 6) (5, 6).

    Args:
        batch: batch with the edge sets ``UndirectedEdges``, ``Rings`` and ``RingEdges``.

    Attributes:
        counts: N, C, R.
        edges: (C, 2) edges of the batch behind every undirected edge, there and back.

    Raises:
        ValueError: the batch has no cells.
    """

    def __init__(self, batch: GraphBatch) -> None:
        if any(name not in batch.edge_sets for name in SETS):
            raise ValueError(f"messages between cells read the edge sets {', '.join(SETS)}, which transforms compute")
        edges, rings, sides = (batch.edge_sets[name] for name in SETS)
        assert edges.attr is not None
        assert sides.attr is not None
        graph, self.graphs = batch.ragged.graph_id, batch.num_graphs
        of_edge, of_ring, of_side = (graph.index_select(0, each.index[0]) for each in (edges, rings, sides))
        self.counts = (batch.num_nodes, edges.num_pairs, rings.num_pairs)
        self.edges = edges.attr + batch.derived(first_edges).index_select(0, of_edge).unsqueeze(1)
        nodes, total = batch.num_nodes, sum(self.counts)
        cells = torch.arange(total, device=batch.device)
        ring, edge = (
            first.index_select(0, of_side) + column
            for first, column in zip((rings.ptr, edges.ptr), sides.attr.unbind(1))
        )
        of_node = cells[nodes : nodes + edges.num_pairs]
        boundary = torch.stack(
            [
                torch.cat([edges.index[0], edges.index[1], nodes + edge]),
                torch.cat([of_node, of_node, nodes + edges.num_pairs + ring]),
            ]
        )
        self._boundary = b = adjacency(boundary, total)
        self._coboundary = Adjacency(total, b.target, b.source, b.by_source, b.by_target, None)
        groups = torch.cat([graph, self.graphs + of_edge, 2 * self.graphs + of_ring])
        self._groups = adjacency(torch.stack([cells, groups]), max(total, DIMENSIONS * self.graphs))

    def first_states(self, h: Tensor, e: Tensor | None) -> Tensor:
        """(N + C + R, d): h, then of edges the mean of e over directions or sum over nodes, then sums over rings."""
        nodes, edges, rings = self.counts
        x = F.pad(h, (0, 0, 0, edges + rings))
        of_nodes = self.over_boundaries(x)
        # Every node of a ring is an end of two of its edges.
        of_rings = self.over_boundaries(of_nodes)[nodes + edges :] / 2
        of_edges = of_nodes[nodes : nodes + edges]
        if e is not None:
            of_edges = e.index_select(0, self.edges.flatten()).view(edges, 2, e.shape[1]).mean(1)
        return torch.cat([h, of_edges, of_rings])

    def over_boundaries(self, x: Tensor) -> Tensor:
        """(N + C + R, d) sum over the boundary of every cell: of an edge its nodes, of a ring its edges."""
        return propagate(self._boundary, x)

    def from_above(self, cell: Tensor, coface: Tensor) -> Tensor:
        """(N + C + R, d) at every cell c the sum of relu(cell[a] + coface[b]) over cells a != c that share a coface b.

        A message depends on its sender and the shared cell alone: every cell hears all messages within a coface but
        its own, in as many operations as there are boundaries.
        """
        sent = (gather(self._boundary, cell, "source") + gather(self._boundary, coface, "target")).relu()
        within = gather(self._boundary, sum_at_target(self._boundary, sent), "target")
        return sum_at_target(self._coboundary, within - sent)

    def pooled(self, x: Tensor, pool: Pool) -> list[Tensor]:
        """Sum or mean over the cells of each dimension of a graph, (G, d) each; 0 where there are none."""
        rows = (sum_at_target if pool == "add" else mean_at_target)(self._groups, x)
        return list(rows[: DIMENSIONS * self.graphs].view(DIMENSIONS, self.graphs, x.shape[1]).unbind(0))
