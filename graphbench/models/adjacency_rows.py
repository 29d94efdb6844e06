"""Linear maps of rows of the adjacency matrix: LINKX and GloGNN read who a node's neighbours are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.contract import HasNodeParameters
from graphbench.errors import check_at_least
from graphbench.ops.propagate import propagate
from graphbench.structures import GraphBatch


class AdjacencyRows(nn.Module, HasNodeParameters):
    """h = A W + b, one row of W per node of the one graph that it is built for.

    Args:
        nodes: number of nodes of the graph.
        dim: width.
        row_normalised: D^-1 (A + I) in place of A.

    Shape:
        batch of one graph of ``nodes`` nodes -> (N, dim)

    Raises:
        ValueError: the batch is another graph.
    """

    def __init__(self, nodes: int, dim: int, *, row_normalised: bool = False) -> None:
        super().__init__()
        check_at_least(1, nodes=nodes)
        self.weight = nn.Parameter(torch.empty(nodes, dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.row_normalised = row_normalised
        bound = nodes**-0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim); A[t, s] counts the edges from s to t."""
        if batch.num_graphs != 1 or batch.num_nodes != len(self.weight):
            raise ValueError(
                f"a weight per node was made for one graph of {len(self.weight)} nodes ('nodes'), received "
                f"{batch.num_graphs} graphs of {batch.num_nodes} nodes in all"
            )
        adjacency = batch.adjacency(norm="row", self_loops=True) if self.row_normalised else batch.adjacency()
        return propagate(adjacency, self.weight) + self.bias
