"""The kernel of tile tables against its equation, on a GPU or interpreted."""

from __future__ import annotations

import pytest

from graphbench.ops import gpu_launch
from graphbench.ops.gpu_launch import row_tiles, tiles_on_device
from graphbench.structures import Ragged
from graphbench.structures.capacity import Capacity, CapacityRagged
from tests.ops.ragged_inputs import DEVICE


@pytest.mark.parametrize("sizes", [[3, 0, 70, 1, 33, 4, 0], [0, 1, 0], [40, 40, 0]], ids=str)
@pytest.mark.parametrize(("smaller", "largest"), [(0, None), (1, 33), (33, 70), (70, 100)])
def test_tables_are_those_of_known_sizes(
    sizes: list[int], smaller: int, largest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of the graphs in question, each once and in order; behind them tiles behind the last graph's rows."""
    monkeypatch.setattr(gpu_launch, "TABLE_BLOCK", 2)
    known = Ragged.from_sizes(sizes, DEVICE)
    capacity = Capacity(len(sizes) - 1, 1, known.num_rows, 0, max(sizes))
    found = tiles_on_device(CapacityRagged(known.ptr, capacity), 16, smaller, largest)
    most = known.num_rows if largest is None else largest
    expected = row_tiles(known, 16, [graph for graph, size in enumerate(sizes) if smaller < size <= most])
    assert found[: len(expected)].tolist() == expected.tolist()
    assert found[len(expected) :].tolist() == [[len(sizes) - 1, sizes[-1]]] * (len(found) - len(expected))
    assert len(found) == known.num_rows // 16 + len(sizes)
