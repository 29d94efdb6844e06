"""Distances of pairs: blocks and neighbour lists."""

from __future__ import annotations

import pytest
import torch

from graphbench.structures import PairBlocks
from tests.contract import example_batch


def blocks(*sizes: int) -> PairBlocks:
    count = sum(n * n for n in sizes)
    return PairBlocks((torch.arange(count) % 251).to(torch.uint8), sizes)


def test_worked_example_of_blocks() -> None:
    pairs = blocks(2, 3)
    assert pairs.pair_ptr.tolist() == [0, 4, 13]
    assert pairs.block(1)[1, 2] == pairs.distance[4 + 3 * 1 + 2]


@pytest.mark.parametrize("distance", [torch.zeros(5, dtype=torch.uint8), torch.zeros(4)])
def test_wrong_blocks_are_refused(distance: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"uint8 of shape \(4,\)"):
        PairBlocks(distance, (2,))


def test_example_batches_carry_shortest_paths() -> None:
    """A path of 4 of the example's 5 nodes; the last one is isolated."""
    pairs = example_batch((5,)).pairs.block(0)
    assert pairs.diagonal().eq(0).all()
    assert pairs[4, :4].eq(255).all()
    assert torch.equal(pairs, pairs.T)
    assert pairs[:4, :4].max() <= 3
