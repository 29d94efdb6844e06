"""Small computations in parallel, one thread for each: LAPACK's own threads do not help on small matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import torch

_Job = TypeVar("_Job")


def in_threads(
    work: Callable[[_Job], None], jobs: Sequence[_Job], alone: Sequence[bool] | None = None
) -> Iterator[int]:
    """Runs all jobs, as many at a time as torch has threads, with one thread for each.

    Args:
        work: does one job; must release the interpreter to be of use (LAPACK, BLAS and index operations do).
        jobs: jobs to be done.
        alone: jobs that get all threads, and are done first.

    Yields:
        Numbers of the jobs, as they are finished.
    """
    chosen = [False] * len(jobs) if alone is None else alone
    for number in (number for number in range(len(jobs)) if chosen[number]):
        work(jobs[number])
        yield number
    rest = [number for number in range(len(jobs)) if not chosen[number]]
    threads = torch.get_num_threads()
    if threads == 1 or len(rest) < 2:
        for number in rest:
            work(jobs[number])
            yield number
        return
    pool = ThreadPoolExecutor(threads)
    torch.set_num_threads(1)
    try:
        running = {pool.submit(work, jobs[number]): number for number in rest}
        for future in as_completed(running):
            future.result()
            yield running[future]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(threads)
