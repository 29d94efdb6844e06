from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice

import pytest

from graphbench.data.loading.prefetch import one_ahead


def _counted(asked: list[int], fail_at: int | None = None) -> Iterator[int]:
    for number in range(5):
        asked.append(number)
        if number == fail_at:
            raise ValueError("broken")
        yield number


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_the_same_values_in_the_same_order() -> None:
    assert list(one_ahead(_counted([]))) == [0, 1, 2, 3, 4]
    assert list(one_ahead(iter([]))) == []
    assert not _threads()


def test_one_value_is_computed_ahead_and_no_more() -> None:
    asked: list[int] = []
    ahead = one_ahead(_counted(asked))
    assert next(ahead) == 0
    ahead.close()  # waits for what has begun
    assert asked == [0, 1]
    assert not _threads()


def test_a_broken_off_epoch_leaves_no_thread() -> None:
    assert list(islice(one_ahead(_counted([])), 2)) == [0, 1]
    assert not _threads()


def test_an_error_appears_where_its_value_would_have() -> None:
    ahead = one_ahead(_counted([], fail_at=2))
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        next(ahead)
    assert not _threads()
