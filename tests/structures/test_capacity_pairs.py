"""Distances of a padded batch belong to every partition of its capacity, and to no other."""

from __future__ import annotations

import torch

from graphbench.structures import Capacity, CapacityRagged, Ragged
from graphbench.structures.capacity_pairs import CapacityPairs


def partition(capacity: Capacity, *ptr: int) -> CapacityRagged:
    return CapacityRagged(torch.tensor(ptr), capacity)


def test_pairs_are_those_of_partitions_of_one_capacity() -> None:
    capacity = Capacity(2, 1, nodes=8, edges=0, max_size=5)
    ragged, other = partition(capacity, 0, 2, 5, 8), partition(capacity, 0, 3, 4, 8)
    pairs = CapacityPairs(torch.zeros(ragged.num_pairs, dtype=torch.uint8), ragged)
    assert pairs.belong_to(ragged)
    assert pairs.belong_to(other)
    assert not pairs.belong_to(partition(Capacity(2, 1, nodes=8, edges=0, max_size=6), 0, 2, 5, 8))
    assert not pairs.belong_to(Ragged.from_sizes([2, 3, 3]))
    assert torch.equal(pairs.pair_ptr, ragged.pair_ptr)
    assert pairs.replaced(pairs.distance, other).belong_to(ragged)
