"""Coarse pieces of the pairs of a batch, each computed by one thread from the first of its tiles to the last.

Operations of torch that share the work of one tile between threads meet at a barrier behind each of them, some forty
times per tile. While other programs hold a core, every one of these barriers waits for the thread that has none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from graphbench.ops.dropout.cpu import RandomKeep
from graphbench.structures import Bucket, PaddedLayout

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """Some heads of a bucket, whose output and gradients no other part touches.

    Attributes:
        number: number of the part in the layout.
        bucket: bucket with the part's graphs.
        heads: heads of the part.
        of_heads: number of heads in all.
    """

    number: int
    bucket: Bucket
    heads: slice
    of_heads: int

    @classmethod
    def all_of(cls, layout: PaddedLayout, heads: int, pairs: int) -> list[Part]:
        """The parts of a layout, largest graphs first; they do not depend on the number of threads.

        Args:
            layout: layout for ``pairs`` pairs.
            heads: H.
            pairs: most pairs of a tile, times heads. Several graphs that share a bucket are one part.
        """
        parts: list[Part] = []
        for bucket in layout.buckets:
            step = heads if len(bucket.graphs) > 1 else max(1, pairs // bucket.length**2)
            for first in range(0, heads, step):
                parts.append(cls(len(parts), bucket, slice(first, min(first + step, heads)), heads))
        return parts

    def tiles(self, pairs: int) -> Iterator[tuple[slice, slice]]:
        """(all graphs and heads of the part, query rows) of its tiles, see :meth:`Bucket.tiles`."""
        return self.bucket.tiles(self.heads.stop - self.heads.start, pairs)

    def keep(self, p: float, seed: int) -> RandomKeep | None:
        """The part's own stream of dropout masks, None without dropout."""
        return RandomKeep(p, seed + self.number) if p else None


def in_threads(work: Callable[[Part, S], T], parts: Sequence[Part], scratch: Callable[[], S]) -> list[T]:
    """Results of ``work`` for every part, in their order.

    With at least as many parts as torch has threads, each of these takes parts until none is left, and computes its own
    without help. With fewer parts they come one after the other, and all threads share the operations of each.

    Args:
        work: work on one part, without a gradient; writes nothing that another part reads or writes.
        parts: parts of tensors on the CPU where there is more than one thread.
        scratch: makes the memory that ``work`` may use, once for every thread.
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(parts) < threads:
        of_all = scratch()
        return [work(part, of_all) for part in parts]
    results: dict[int, T] = {}
    failures: list[BaseException] = []
    waiting, inference = iter(range(len(parts))), torch.is_inference_mode_enabled()

    def take_parts() -> None:
        try:
            with torch.inference_mode() if inference else torch.no_grad():  # the mode is a thread's own
                own = scratch()
                for number in waiting:
                    results[number] = work(parts[number], own)
                    if failures:
                        return
        except BaseException as failure:  # noqa: BLE001 (raised again below)
            failures.append(failure)

    others = [threading.Thread(target=take_parts) for _ in range(threads - 1)]
    torch.set_num_threads(1)  # of this thread, and of those that start now
    try:
        for thread in others:
            thread.start()
        take_parts()
    finally:
        for thread in others:
            thread.join()
        torch.set_num_threads(threads)
    if failures:
        raise failures[0]
    return [results[number] for number in range(len(parts))]
