"""Pooling: from node rows to one row per graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from graphbench.contract import HasPooling
from graphbench.errors import check_one_of
from graphbench.ops.segment import segment_max, segment_mean, segment_sum
from graphbench.structures import GraphBatch, Ragged


def first_row(rows: Tensor, ragged: Ragged) -> Tensor:
    """(G, d) first node of every graph, the graph token where there is one; an empty graph gives zeros."""
    if not len(rows):
        return rows.new_zeros(ragged.num_graphs, *rows.shape[1:])
    empty = (ragged.size_tensor == 0).view(-1, *[1] * (rows.dim() - 1))
    first = rows.index_select(0, ragged.ptr[:-1].clamp(max=len(rows) - 1))
    return first.masked_fill(empty, 0.0)


POOLINGS: Mapping[str, Callable[[Tensor, Ragged], Tensor]] = {
    "add": segment_sum,
    "sum": segment_sum,
    "mean": segment_mean,
    "max": segment_max,
    "graph_token": first_row,
}
"""Poolings by the names of ``model.graph_pooling``; some published YAML files have "sum" for "add"."""


def pooling_function(name: str) -> Callable[[Tensor, Ragged], Tensor]:
    """The function ``(rows (N, d), ragged) -> (G, d)`` behind a name; an empty graph gives zeros.

    Raises:
        ValueError: unknown name.
    """
    check_one_of(POOLINGS, pooling=name)
    return POOLINGS[name]


class PoolsNodes(HasPooling):
    """A head whose row of a graph is pooled from the states of its nodes as they come.

    Attributes:
        pool: the pooling, :func:`pooling_function`.
    """

    pool: Callable[[Tensor, Ragged], Tensor]

    def pooled(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, d) the row of every graph, from states (N, d)."""
        return self.pool(h, batch.ragged)
