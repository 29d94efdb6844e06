"""Prefetching: the next value is computed while the present one is in use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_END = object()


def one_ahead(values: Iterator[T]) -> Iterator[T]:
    """Values in their order, each computed in a second thread while the one before it is in use.

    The thread ends with the iteration, also where that is broken off; an error appears where its value would have.

    Args:
        values: asked by one thread at a time.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
        coming = pool.submit(next, values, _END)
        while (value := coming.result()) is not _END:
            coming = pool.submit(next, values, _END)
            yield value  # type: ignore[misc]
