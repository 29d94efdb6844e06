"""A short convolution along the order of the nodes, inside every graph."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.errors import ArgumentError
from graphbench.structures import GraphBatch


class SequenceConv(nn.Conv1d):
    """Depthwise convolution with zeros beyond the ends of a graph.

    Equation::

        y_t = b + sum over j < length of w_j x_(t - left + j)

    Args:
        dim: channels.
        length: taps of the filter.
        causal: ``left = length - 1``, so that a node sees itself and nodes before it; otherwise half of
            ``length - 1``, rounded down: a window centred at the node.

    Shape:
        x (N, dim), rows in the order of the sequence -> (N, dim)

    Raises:
        ValueError: ``length`` is less than 1.
    """

    def __init__(self, dim: int, length: int, *, causal: bool = False) -> None:
        if length < 1:
            raise ArgumentError("length", f"the length of a convolution must be at least 1, received {length}")
        super().__init__(dim, dim, length, groups=dim)
        self.length = length
        self.left = length - 1 if causal else (length - 1) // 2

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:  # type: ignore[override]
        """(N, dim): one convolution over all graphs, with ``length`` zeros between them."""
        row = batch.derived(_padded_rows, self.length)
        rows = batch.num_nodes + (batch.num_graphs + 1) * self.length
        padded = x.new_zeros(rows, x.shape[1]).index_copy(0, row, x)
        out = super().forward(padded.t().unsqueeze(0)).squeeze(0).t()
        return out.index_select(0, row - self.left)


def _padded_rows(batch: GraphBatch, length: int) -> Tensor:
    """(N,) int64, row of every node in the sequence of graphs and zeros."""
    graph = batch.ragged.graph_id
    row = graph.new_ones(graph.shape).cumsum(0) - 1
    return row + (graph + 1) * length
