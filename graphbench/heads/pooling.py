"""From node rows to one row per graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from graphbench.errors import ArgumentError
from graphbench.ops.segment import segment_max, segment_mean, segment_sum
from graphbench.structures import Ragged


def first_row(rows: Tensor, ragged: Ragged) -> Tensor:
    """The first node of every graph: the graph token, where an encoder put one there; an empty graph gives zeros."""
    if not len(rows):
        return rows.new_zeros(ragged.num_graphs, *rows.shape[1:])
    empty = ragged.size_tensor == 0
    found = rows.index_select(0, ragged.ptr[:-1].clamp(max=len(rows) - 1))
    return found.masked_fill(empty.view(-1, *(1 for _ in rows.shape[1:])), 0.0)


# Names of `model.graph_pooling`. "sum" is what some published YAML files write for "add".
POOLINGS: Mapping[str, Callable[[Tensor, Ragged], Tensor]] = {
    "add": segment_sum,
    "sum": segment_sum,
    "mean": segment_mean,
    "max": segment_max,
    "graph_token": first_row,
}


def pooling_function(name: str) -> Callable[[Tensor, Ragged], Tensor]:
    """The function ``(rows (N, d), ragged) -> (G, d)`` behind a name; an empty graph gives zeros.

    Raises:
        ValueError: unknown name.
    """
    if name not in POOLINGS:
        raise ArgumentError("pooling", f"pooling must be one of {', '.join(POOLINGS)}; received '{name}'")
    return POOLINGS[name]
