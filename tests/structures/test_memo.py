"""Derived values: computed once, kept as long as their owner and no longer."""

from __future__ import annotations

import copy
import pickle
import weakref

from graphbench.structures import Ragged


class Made:
    """Something that can be weakly referenced, made from a partition and a number."""

    def __init__(self, ragged: Ragged, number: int) -> None:
        self.total = ragged.num_rows + number


def test_computed_once_per_function_and_arguments() -> None:
    ragged = Ragged.from_sizes([2, 3])
    first = ragged.derived(Made, 1)
    assert first.total == 6
    assert ragged.derived(Made, 1) is first
    assert ragged.derived(Made, 2).total == 7
    assert Ragged.from_sizes([2, 3]).derived(Made, 1) is not first


def test_lives_as_long_as_its_owner() -> None:
    ragged = Ragged.from_sizes([2, 3])
    made = weakref.ref(ragged.derived(Made, 1))
    assert made() is not None
    del ragged
    assert made() is None


def test_copies_start_without() -> None:
    ragged = Ragged.from_sizes([2, 3])
    first = ragged.derived(Made, 1)
    for other in (copy.copy(ragged), pickle.loads(pickle.dumps(ragged))):
        assert other.sizes == ragged.sizes
        assert other.derived(Made, 1) is not first
    assert ragged.derived(Made, 1) is first
