"""The ragged partition: its worked example and arbitrary sizes; its buckets are in test_buckets.py."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphbench.structures import Ragged

SIZES = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 90)), max_size=12)
quick = settings(max_examples=60, deadline=None)


def test_worked_example() -> None:
    ragged = Ragged.from_sizes([2, 0, 3])
    assert ragged.ptr.tolist() == [0, 2, 2, 5]
    assert ragged.graph_id.tolist() == [0, 0, 2, 2, 2]
    assert ragged.size_tensor.tolist() == [2, 0, 3]
    assert (ragged.num_graphs, ragged.num_rows, ragged.max_size) == (3, 5, 3)


@quick
@given(SIZES)
@example([])
@example([0, 0])
@example([5, 5, 5])
@example([1, 90, 1])
def test_pointers_and_graph_ids(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    assert ragged.sizes == tuple(sizes)
    assert ragged.num_rows == sum(sizes)
    assert ragged.max_size == max(sizes, default=0)
    assert ragged.graph_id.tolist() == [g for g, n in enumerate(sizes) for _ in range(n)]
    assert ragged.ptr[-1] == sum(sizes)


def test_to_the_same_device_is_the_same_object() -> None:
    ragged = Ragged.from_sizes([1, 2])
    assert ragged.to("cpu") is ragged


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="received -2"):
        Ragged.from_sizes([3, -2])


def test_wrong_number_of_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 blocks"):
        Ragged.from_sizes([100, 2]).from_buckets([torch.zeros(1, 100)])
