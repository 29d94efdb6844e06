"""From node rows to one row per graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from graphbench.ops.segment import segment_max, segment_mean, segment_sum
from graphbench.structures import Ragged

# Names of `model.graph_pooling`. "sum" is what some published YAML files write for "add".
POOLINGS: Mapping[str, Callable[[Tensor, Ragged], Tensor]] = {
    "add": segment_sum,
    "sum": segment_sum,
    "mean": segment_mean,
    "max": segment_max,
}


def pooling_function(name: str) -> Callable[[Tensor, Ragged], Tensor]:
    """The function ``(rows (N, d), ragged) -> (G, d)`` behind a name; an empty graph gives zeros.

    Raises:
        ValueError: unknown name.
    """
    if name not in POOLINGS:
        raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}; received '{name}'")
    return POOLINGS[name]
