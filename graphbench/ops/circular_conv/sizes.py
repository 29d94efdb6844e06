"""The distinct sizes of the graphs of a batch: a filter is evaluated once for each."""

from __future__ import annotations

from graphbench.structures import Ragged


def sizes_of(ragged: Ragged) -> tuple[int, ...]:
    """Distinct sizes, ascending, without 0; taps of size n occupy n consecutive rows of ``filters`` in this order."""
    return tuple(sorted(set(ragged.sizes) - {0}))


# Nodes from which a GPU gains by it: below, what counts is the number of kernels.
LONG = 1 << 15


def reads_columns(ragged: Ragged) -> bool:
    """Whether rows that lie channel by channel in memory spare :func:`circular_conv` a copy: one long graph, no CPU."""
    return ragged.device.type != "cpu" and ragged.num_graphs == 1 and ragged.num_rows >= LONG
