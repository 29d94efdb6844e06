"""The distinct sizes of the graphs of a batch: a filter is evaluated once for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphbench.structures import Ragged


def sizes_of(ragged: Ragged) -> tuple[int, ...]:
    """Distinct sizes, ascending, without 0; taps of size n occupy n consecutive rows of ``filters`` in this order."""
    return tuple(sorted(set(ragged.sizes) - {0}))
