"""Columns of counted substructures: what writes them and what reads them agree here."""

from __future__ import annotations

SMALLEST = 3
"""Nodes of the smallest cycle, and of the smallest clique."""


def substructure_columns(cycles: int, cliques: int) -> int:
    """Number of columns: cycles of 3 .. ``cycles`` nodes, then cliques of those sizes that are no cycles among them.

    Args:
        cycles: nodes of the largest cycle; 0: none.
        cliques: nodes of the largest clique; 0: none.
    """
    of_cycles = max(0, cycles - SMALLEST + 1)
    return of_cycles + max(0, cliques - SMALLEST + (0 if of_cycles else 1))


CYCLE, OTHER, NEIGHBOURHOOD = range(3)
"""Kinds of motifs that a sampler tells apart: cycles; paths and stars; balls and walks."""
