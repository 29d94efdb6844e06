"""Lists of edges made from a known order are those that sorting makes, on both devices."""

from __future__ import annotations

import pytest
import torch

from graphbench.structures.adjacency import adjacency
from tests.second_device import DEVICE, second_device

EDGES = [[0, 2, 1, 2, 2, 4, 0], [1, 0, 2, 4, 2, 2, 1]]  # node 3 has none, node 2 a loop, 0 -> 1 is there twice


@pytest.mark.parametrize("edges", [EDGES, [[], []]])
@pytest.mark.parametrize("self_loops", [False, True])
def test_a_known_order_gives_the_lists_of_sorting(edges: list[list[int]], self_loops: bool) -> None:
    index = torch.tensor(edges, dtype=torch.int64)
    order = torch.stack([index[1].argsort(stable=True), index[0].argsort(stable=True)])
    expected = adjacency(index, 5, norm="row", self_loops=self_loops)
    with second_device() as waits:
        index_there, order_there = index.to(DEVICE), order.to(DEVICE)
        waits.clear()
        there = adjacency(index_there, 5, norm="row", self_loops=self_loops, order=order_there)
        assert not waits
        found = [
            [each.cpu() for each in (lists.ptr, lists.entry, lists.other)]
            for lists in (there.by_target, there.by_source)
        ]
    here = adjacency(index, 5, norm="row", self_loops=self_loops, order=order)
    for known, theirs, ours in zip(
        (expected.by_target, expected.by_source), found, (here.by_target, here.by_source), strict=True
    ):
        for a, b, c in zip(
            (known.ptr, known.entry, known.other), theirs, (ours.ptr, ours.entry, ours.other), strict=True
        ):
            assert torch.equal(a, b.to(a.dtype))
            assert torch.equal(a, c.to(a.dtype))
