"""Rows of many graphs behind each other, and the index algebra that every layer needs, done once.

Worked example: three graphs of 2, 0 and 3 nodes share one tensor of 5 rows::

    ragged = Ragged.from_sizes([2, 0, 3])
    ragged.ptr        tensor([0, 2, 2, 5])     graph g owns rows ptr[g] .. ptr[g+1]
    ragged.graph_id   tensor([0, 0, 2, 2, 2])
    ragged.buckets    graphs of similar size side by side, for batched dense work (attention, eigenvectors)

Sizes live on the host as plain ints, so no layer ever asks the device how large a graph is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

# A bucket takes graphs down to this share of its longest one (or a few rows less, for tiny graphs, where the
# overhead of one more batched operation exceeds the padding). 0.8 wastes at most 36 % of a bucket's pairs.
_SHARE = 0.8
_SLACK = 8


@dataclass(frozen=True, eq=False)
class Bucket:
    """Graphs of similar size, laid out as one dense block of ``len(graphs)`` x ``length`` rows.

    Attributes:
        graphs: indices of the graphs in the batch, in the order of the block's first dimension.
        length: rows per graph in the block (the largest of them).
        rows: (B, length) int64, row of the ragged tensor behind each cell; a padding cell repeats the first row of
            its own graph, so that whatever is read there belongs to that graph.
        mask: (B, length) bool, True for real rows; None when every graph fills the block.
        span: (start, stop) when the block is exactly this slice of the ragged tensor (no gather is needed).
    """

    graphs: tuple[int, ...]
    length: int
    rows: Tensor
    mask: Tensor | None
    span: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Ragged:
    """Partition of the rows of a tensor into graphs. Empty graphs are legal, and so is a batch of none.

    Attributes:
        ptr: (G+1,) int64, first row of every graph and the total, on the device of the batch.
        sizes: rows per graph, on the host.
    """

    ptr: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def from_sizes(cls, sizes: Iterable[int], device: torch.device | str | None = None) -> Ragged:
        """Builds the partition from the number of rows of each graph.

        Raises:
            ValueError: a size is negative.
        """
        host = tuple(int(size) for size in sizes)
        if any(size < 0 for size in host):
            raise ValueError(f"sizes must not be negative, received {min(host)}")
        ptr = torch.zeros(len(host) + 1, dtype=torch.int64)
        ptr[1:] = torch.as_tensor(host, dtype=torch.int64).cumsum(0)
        return cls(ptr if device is None else ptr.to(device, non_blocking=True), host)

    @property
    def num_graphs(self) -> int:
        """G, empty graphs included."""
        return len(self.sizes)

    @cached_property
    def num_rows(self) -> int:
        """N, rows of all graphs together."""
        return sum(self.sizes)

    @cached_property
    def max_size(self) -> int:
        """Rows of the largest graph, 0 for a batch of none."""
        return max(self.sizes, default=0)

    @property
    def device(self) -> torch.device:
        """Where ``ptr`` and everything derived from it lies."""
        return self.ptr.device

    @cached_property
    def graph_id(self) -> Tensor:
        """(N,) int64, the graph of every row."""
        graphs = torch.arange(self.num_graphs, device=self.device)
        return torch.repeat_interleave(graphs, self.size_tensor, output_size=self.num_rows)

    @cached_property
    def size_tensor(self) -> Tensor:
        """(G,) int64, ``sizes`` on the device."""
        return self.ptr[1:] - self.ptr[:-1]

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        """All non-empty graphs, grouped by similar size, largest first. Computed on the host, copied once."""
        return tuple(_build_bucket(group, self.sizes, self._starts, self.device) for group in _group(self.sizes))

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(np.asarray(self.sizes, dtype=np.int64))])[:-1]

    @cached_property
    def _cell_of_row(self) -> Tensor | None:
        """(N,) position of every row in the concatenation of all buckets; None when that is the identity."""
        cell = np.empty(self.num_rows, dtype=np.int64)
        offset = 0
        starts = self._starts
        for bucket in self.buckets:
            for position, graph in enumerate(bucket.graphs):
                size, first = self.sizes[graph], starts[graph]
                cell[first : first + size] = np.arange(size) + (offset + position * bucket.length)
            offset += len(bucket.graphs) * bucket.length
        if np.array_equal(cell, np.arange(self.num_rows)) and offset == self.num_rows:
            return None
        return torch.from_numpy(cell).to(self.device, non_blocking=True)

    def to_buckets(self, rows: Tensor) -> list[Tensor]:
        """Splits a ragged tensor into dense blocks, one per bucket.

        Args:
            rows: (N, ...) grouped by graph.

        Returns:
            One (B, length, ...) tensor per entry of :attr:`buckets`. Padding cells repeat the graph's first row:
            mask them where it matters.
        """
        blocks = []
        for bucket in self.buckets:
            shape = (len(bucket.graphs), bucket.length, *rows.shape[1:])
            if bucket.span is not None:
                blocks.append(rows[bucket.span[0] : bucket.span[1]].view(shape))
            else:
                blocks.append(rows.index_select(0, bucket.rows.view(-1)).view(shape))
        return blocks

    def from_buckets(self, blocks: Sequence[Tensor]) -> Tensor:
        """Inverse of :meth:`to_buckets`: puts dense blocks back into one ragged tensor, dropping padding.

        Args:
            blocks: one (B, length, ...) tensor per bucket.

        Returns:
            (N, ...) grouped by graph.

        Raises:
            ValueError: the number of blocks differs from the number of buckets, or there is none to take the
                trailing shape from.
        """
        if len(blocks) != len(self.buckets) or not blocks:
            raise ValueError(f"expected {len(self.buckets)} blocks (at least one), received {len(blocks)}")
        flat = [block.reshape(-1, *block.shape[2:]) for block in blocks]
        joined = flat[0] if len(flat) == 1 else torch.cat(flat)
        return joined if self._cell_of_row is None else joined.index_select(0, self._cell_of_row)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Ragged:
        """The same partition on another device (itself where nothing moves)."""
        moved = self.ptr.to(device, non_blocking=non_blocking)
        return self if moved is self.ptr else Ragged(moved, self.sizes)

    def pin_memory(self) -> Ragged:
        """The same partition in page-locked memory."""
        return Ragged(self.ptr.pin_memory(), self.sizes)


def _group(sizes: tuple[int, ...]) -> list[list[int]]:
    """Graphs of similar size together; within a group in batch order, so that equal sizes stay contiguous."""
    order = sorted((g for g in range(len(sizes)) if sizes[g]), key=lambda g: -sizes[g])
    groups: list[list[int]] = []
    floor = 0
    for graph in order:
        if not groups or sizes[graph] < floor:
            groups.append([])
            floor = min(int(_SHARE * sizes[graph]), sizes[graph] - _SLACK)
        groups[-1].append(graph)
    return [sorted(group) for group in groups]


def _build_bucket(graphs: list[int], sizes: tuple[int, ...], starts: np.ndarray, device: torch.device) -> Bucket:
    each = np.asarray([sizes[g] for g in graphs], dtype=np.int64)
    first = starts[graphs]
    length = int(each.max())
    column = np.arange(length)
    real = column < each[:, None]
    rows = torch.from_numpy(first[:, None] + np.where(real, column, 0)).to(device, non_blocking=True)
    full = bool(real.all())
    contiguous = full and bool((first == first[0] + length * np.arange(len(graphs))).all())
    return Bucket(
        graphs=tuple(graphs),
        length=length,
        rows=rows,
        mask=None if full else torch.from_numpy(real).to(device, non_blocking=True),
        span=(int(first[0]), int(first[0]) + length * len(graphs)) if contiguous else None,
    )
