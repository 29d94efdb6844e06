"""Columns of counted substructures."""

from __future__ import annotations

import pytest

from graphbench.structures.substructure_kinds import substructure_columns


@pytest.mark.parametrize(
    ("cycles", "cliques", "columns"), [(0, 0, 0), (3, 0, 1), (6, 0, 4), (0, 3, 1), (0, 5, 3), (6, 3, 4), (4, 5, 4)]
)
def test_triangles_are_listed_once(cycles: int, cliques: int, columns: int) -> None:
    assert substructure_columns(cycles, cliques) == columns
