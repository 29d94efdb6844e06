"""Distances of pairs: blocks and neighbour lists."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench.structures import HopNeighbors, PairBlocks
from tests.contract import example_batch


def blocks(*sizes: int) -> PairBlocks:
    count = sum(n * n for n in sizes)
    return PairBlocks((torch.arange(count) % 251).to(torch.uint8), sizes)


def test_worked_example_of_blocks() -> None:
    pairs = blocks(2, 3)
    assert pairs.pair_ptr.tolist() == [0, 4, 13]
    assert pairs.block(1)[1, 2] == pairs.distance[4 + 3 * 1 + 2]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), max_size=3), max_size=4))
def test_collated_blocks_keep_every_graph(groups: list[list[int]]) -> None:
    parts = [blocks(*sizes) for sizes in groups]
    joined = PairBlocks.collate(parts)
    expected = [part.block(g) for part in parts for g in range(len(part.sizes))]
    assert joined.sizes == tuple(n for sizes in groups for n in sizes)
    assert len(joined.sizes) == len(expected)
    assert all(torch.equal(joined.block(g), block) for g, block in enumerate(expected))


@pytest.mark.parametrize("distance", [torch.zeros(5, dtype=torch.uint8), torch.zeros(4)])
def test_wrong_blocks_are_refused(distance: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"uint8 of shape \(4,\)"):
        PairBlocks(distance, (2,))


def test_worked_example_of_lists_collated() -> None:
    path = HopNeighbors(
        torch.tensor([0, 2, 5, 7]),
        torch.tensor([0, 1, 0, 1, 2, 1, 2]),
        torch.tensor([0, 1, 1, 0, 1, 1, 0], dtype=torch.uint8),
    )
    joined = HopNeighbors.collate([path, path])
    assert joined.num_nodes == 6
    assert joined.row_ptr.tolist() == [0, 2, 5, 7, 9, 12, 14]
    assert joined.col.tolist() == [0, 1, 0, 1, 2, 1, 2, 3, 4, 3, 4, 5, 4, 5]
    assert joined.hop.tolist() == path.hop.tolist() * 2


def test_no_lists() -> None:
    none = HopNeighbors.collate([])
    assert none.num_nodes == 0
    assert none.col.numel() == 0


def test_example_batches_carry_shortest_paths() -> None:
    """A path of 4 of the example's 5 nodes; the last one is isolated."""
    pairs = example_batch((5,)).pairs.block(0)
    assert pairs.diagonal().eq(0).all()
    assert pairs[4, :4].eq(255).all()
    assert torch.equal(pairs, pairs.T)
    assert pairs[:4, :4].max() <= 3
