"""Capacities of padded batches: where they are cut, and which batches fit them."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from graphbench.data.loading.padded import _cuts, capacity_classes
from graphbench.structures import BatchCounts


def _room(nodes: np.ndarray, ends: list[int]) -> int:
    """When every group is filled up to its largest."""
    return sum((end - start) * int(nodes[end - 1]) for start, end in pairwise([0, *ends]))


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_cut_where_least_is_padding(groups: int) -> None:
    random = np.random.default_rng(groups)
    for count in range(1, 9):
        nodes = np.sort(random.integers(1, 50, count))
        ends = _cuts(nodes, groups)
        assert ends == sorted(set(ends))
        assert ends[-1] == count
        assert len(ends) <= groups
        others = (inner for number in range(groups) for inner in combinations(range(1, count), number))
        assert _room(nodes, ends) == min(_room(nodes, [*inner, count]) for inner in others)


def test_every_batch_that_was_counted_fits_a_class() -> None:
    random = np.random.default_rng(0)
    sizes = [random.integers(1, 30, 32) for _ in range(300)] + [random.integers(1, 30, 5)]
    counts = [
        BatchCounts(len(each), int(each.sum()), int(2 * each.sum()), taps=int(np.unique(each).sum())) for each in sizes
    ]
    classes = capacity_classes(counts, 4, 29)
    assert len(classes) == 5  # one for the last batch of an epoch
    assert all(any(each.fits(batch) for each in classes) for batch in counts)
