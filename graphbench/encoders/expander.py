"""Pairs of Exphormer's attention with features: graph edges, expander edges and edges of virtual nodes."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_at_least
from graphbench.structures import EdgeSet, GraphBatch, LayerState


class ExpanderEdges(nn.Module):
    """Pairs of Exphormer's attention, computed once before the first layer (https://arxiv.org/abs/2303.06147).

    All expander edges have the same learned feature. The first state of a virtual node is a learned row; it is joined
    to all nodes of its graph in both directions, and its edges have two learned features, one per direction.

    Args:
        dim: channels of node states.
        dim_edge: channels of edge states.
        expander: use the expander edges, ``edge_sets["expander"]`` of the batch.
        add_edge_index: use the edges of the graph, with their encoded features.
        num_virtual_nodes: V, virtual nodes per graph.

    Shape:
        h (N, dim), e (E, dim_edge) -> the batch with ``edge_sets["exp"]`` (M pairs, those of a graph together) and in
        its state ``edge_states["exp"]`` (M, dim_edge), and with V > 0 ``virtual_nodes`` (V * G, dim), row v * G + g for
        graph g, and ``virtual_edges`` (2 V, dim_edge), row 2 v for node -> virtual node, row 2 v + 1 for the way back.

    Raises:
        ValueError: nothing to attend along; no edge states although the edges take part; no expander edges.

    Differences from the released code: pairs are ordered by graph (there: all edges, then all expander edges), which
    changes no result. The expander's feature exists and counts as a parameter without expander edges too, as there.
    """

    def __init__(
        self,
        dim: int,
        dim_edge: int,
        *,
        expander: bool = True,
        add_edge_index: bool = True,
        num_virtual_nodes: int = 0,
    ) -> None:
        super().__init__()
        check_at_least(0, num_virtual_nodes=num_virtual_nodes)
        if not (expander or add_edge_index or num_virtual_nodes):
            raise ArgumentError(
                ("expander", "add_edge_index"),
                "nothing to attend along: use expander edges (prep.exp and prep.use_exp_edges), the edges "
                "(prep.add_edge_index) or virtual nodes (prep.num_virt_node)",
            )
        self.uses = (add_edge_index, expander)  # graph edges, expander edges
        self.expander = nn.Embedding(1, dim_edge)
        self.virtual = nn.ModuleDict()
        if num_virtual_nodes:
            self.virtual["node"] = nn.Embedding(num_virtual_nodes, dim)
            self.virtual["edge_in"] = nn.Embedding(num_virtual_nodes, dim_edge)
            self.virtual["edge_out"] = nn.Embedding(num_virtual_nodes, dim_edge)

    @property
    def needs_edges(self) -> bool:
        """Whether ``e`` must be given."""
        return self.uses[0]

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> GraphBatch:
        """The batch with the pairs and their states."""
        add_edge_index, expander = self.uses
        if add_edge_index and e is None:
            raise ValueError("Exphormer attends along edges and needs edge states, received none (add an edge encoder)")
        if expander and "expander" not in batch.edge_sets:
            raise ValueError(f"the batch has no expander edges; its edge sets: {', '.join(batch.edge_sets) or 'none'}")
        with_pairs, order = batch.derived(_with_pairs, add_edge_index, expander)
        parts = [self.expander.weight[:0]]
        if add_edge_index and e is not None:
            parts.append(e)
        if expander:
            parts.append(self.expander.weight.expand(batch.edge_sets["expander"].num_pairs, -1))
        attr = torch.cat(parts)
        if order is not None:
            attr = attr.index_select(0, order)
        with_pairs = with_pairs.with_state(batch.state, edge_states={**batch.state.edge_states, "exp": attr})
        if not self.virtual:
            return with_pairs
        node, edge_in, edge_out = (cast("nn.Embedding", table).weight for table in self.virtual.values())
        nodes = node.unsqueeze(1).expand(-1, batch.num_graphs, -1)
        edges = torch.stack([edge_in, edge_out], dim=1)
        return with_pairs.with_state(virtual_nodes=nodes.flatten(0, 1), virtual_edges=edges.flatten(0, 1))


def _with_pairs(batch: GraphBatch, add_edge_index: bool, expander: bool) -> tuple[GraphBatch, Tensor | None]:
    """The batch with the edge set ``exp``, and the permutation that sorted its pairs by graph (None: no change)."""
    parts = [batch.edge_index] if add_edge_index else []
    if expander:
        parts.append(batch.edge_sets["expander"].index)
    index = torch.cat([batch.edge_index[:, :0], *parts], dim=1)
    order = None
    graph = batch.ragged.graph_id[index[0]]
    if len(parts) > 1:
        order = torch.argsort(graph, stable=True)
        index = index[:, order]
    ptr = torch.zeros_like(batch.ragged.ptr).scatter_add_(0, graph + 1, torch.ones_like(graph)).cumsum(0)
    return batch.replace(edge_sets={**batch.edge_sets, "exp": EdgeSet(index, ptr)}, state=LayerState()), order
