"""Graphs by their size, of batches whose sizes the host knows and of padded ones; and padded batches in one bucket."""

from __future__ import annotations

import pytest
import torch

from graphbench.structures import Capacity, CapacityRagged, Ragged
from graphbench.structures.capacity import SizesUnknown
from graphbench.structures.size_groups import num_taps, size_groups

SIZES = (2, 3, 0, 2)


def padded(sizes: tuple[int, ...] = SIZES, padding: tuple[int, ...] = (4, 1, 0), taps: int = 24) -> CapacityRagged:
    everything = [*sizes, *padding]
    ptr = torch.tensor([0, *everything]).cumsum(0)
    capacity = Capacity(len(sizes), len(padding), nodes=sum(everything), edges=0, max_size=4, taps=taps)
    return CapacityRagged(ptr, capacity)


def test_the_worked_example() -> None:
    groups = size_groups(Ragged.from_sizes([2, 3, 2]))
    assert groups.first_tap.tolist() == [0, 2, 0]
    assert groups.graphs.tolist() == [0, 2, 1]
    assert groups.ptr.tolist() == [0, 2, 3]
    assert [each.tolist() for each in groups.positions()] == [[0, 1, 0, 1, 2], [2, 2, 3, 3, 3]]


@pytest.mark.parametrize("ragged", [Ragged.from_sizes(SIZES), padded()], ids=["plain", "padded"])
def test_every_graph_has_the_taps_of_its_size(ragged: Ragged) -> None:
    groups = size_groups(ragged)
    position, size = groups.positions()
    assert len(position) == num_taps(ragged)
    for graph, n in enumerate(ragged.size_tensor.tolist()):
        taps = slice(int(groups.first_tap[graph]), int(groups.first_tap[graph]) + n)
        assert position[taps].tolist() == list(range(n))
        assert size[taps].tolist() == [n] * n
    for group, (low, high) in enumerate(zip(groups.ptr[:-1], groups.ptr[1:], strict=True)):
        for graph in groups.graphs[low:high].tolist():
            assert ragged.size_tensor[graph] == groups.taps.size_tensor[group]


def test_taps_that_nobody_counted() -> None:
    with pytest.raises(SizesUnknown, match="known on the device only"):
        num_taps(padded(taps=0))


def test_padded_graphs_in_one_bucket() -> None:
    ragged = padded()
    rows = torch.arange(float(ragged.num_rows)).view(-1, 1)
    (block,) = ragged.to_buckets(rows)
    (bucket,) = ragged.buckets
    assert block.shape == (7, 4, 1)
    assert bucket.mask is not None
    assert bucket.mask.sum(1).tolist() == [2, 3, 0, 2, 4, 1, 0]
    assert block[1, :, 0].tolist() == [2.0, 3.0, 4.0, 2.0]
    assert torch.equal(ragged.from_buckets([block]), rows)


def test_graphs_that_are_small_beside_the_largest_are_not_padded_to_it() -> None:
    ptr = torch.arange(101)
    with pytest.raises(SizesUnknown, match="padded 50-fold"):
        CapacityRagged(ptr, Capacity(90, 10, nodes=100, edges=0, max_size=50)).layout  # noqa: B018
