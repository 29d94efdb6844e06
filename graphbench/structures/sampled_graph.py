"""A random subgraph whose sums stand for those of the whole graph (GraphSAINT, https://arxiv.org/abs/1907.04931)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from graphbench.structures.adjacency import Adjacency, adjacency, in_pieces, normalised
from graphbench.structures.graph_batch import GraphBatch


@dataclass(frozen=True, eq=False, repr=False)
class SampledGraph(GraphBatch):
    """The induced subgraph of random nodes, with the weights that make sums over it unbiased (section 3.2).

    A layer that propagates along ``adjacency`` gets ``a(s, t) / P(s | t)``, a(s, t) the entry of the normalised
    adjacency of the whole graph: the expectation of what reaches t, given that t was drawn, is the sum over all its
    edges. A layer that reads edges without their weights (a softmax over neighbours) has no such estimate, in the paper
    as here.

    Attributes:
        in_degree: (N,) int64, edges into every node in the whole graph.
        loops: (N,) int64, how many of those are self loops.
        edge_weight: (E,) float64, 1 / P(edge drawn | its target drawn).
        node_weight: (N,) float32, weight of a node's loss: 1 / (training nodes x expected number of times it is drawn).
    """

    in_degree: Tensor = field(kw_only=True)
    loops: Tensor = field(kw_only=True)
    edge_weight: Tensor = field(kw_only=True)
    node_weight: Tensor = field(kw_only=True)

    def adjacency(self, *, norm: Literal["sym", "row", "none"] = "none", self_loops: bool = False) -> Adjacency:
        """Adjacency normalised by the degrees of the whole graph, edges weighted by 1 / P(s | t)."""
        return self.derived(_weighted_adjacency, norm, self_loops)

    def _map(self, function: Callable[[Any], Any]) -> SampledGraph:
        plain = super()._map(function)
        own = ("in_degree", "loops", "edge_weight", "node_weight")
        return SampledGraph(
            **{each.name: getattr(plain, each.name) for each in fields(GraphBatch)},
            **{name: function(getattr(self, name)) for name in own},
        )


def _weighted_adjacency(batch: SampledGraph, norm: str, self_loops: bool) -> Adjacency:
    adj = adjacency(batch.edge_index, batch.num_nodes, self_loops=self_loops, order=batch.edge_order)
    weight, degree = batch.edge_weight, batch.in_degree
    if self_loops:  # a node's own loop is there whenever the node is
        given = torch.where(batch.edge_index[0] != batch.edge_index[1], weight, 0.0)
        weight = torch.cat([given, weight.new_ones(batch.num_nodes)])
        degree = degree - batch.loops + 1
    if norm != "none":
        weight = normalised(weight, adj.source, adj.target, degree.double(), norm)
    weighted = replace(adj, weight=weight, _cast={})
    return weighted if batch.device.type == "cpu" else in_pieces(weighted)
