"""Partition of a tensor's rows into graphs, and the index algebra that every layer needs, done once.

Worked example: three graphs of 2, 0 and 3 nodes share one tensor of 5 rows::

    ragged = Ragged.from_sizes([2, 0, 3])
    ragged.ptr        tensor([0, 2, 2, 5])     graph g owns rows ptr[g] .. ptr[g+1]
    ragged.graph_id   tensor([0, 0, 2, 2, 2])
    ragged.buckets    graphs of similar size padded together, for batched dense work (attention, eigenvectors)

Sizes live on the host as plain ints, so no layer ever asks the device how large a graph is. (torch calls such a tensor
jagged, flash-attention a variable-length batch.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from graphbench.structures.buckets import Bucket, PaddedLayout, bounded_pairs, padded_layout, similar_sizes
from graphbench.structures.memo import Memo
from graphbench.structures.side_stream import tensor_property


class Ragged(Memo):
    """Partition of the rows of a tensor into graphs. Empty graphs are legal, and so is a batch of none.

    Args:
        ptr: (G+1,) int64, first row of every graph and the total, on the device of the batch.
        sizes: rows per graph, on the host.
    """

    def __init__(self, ptr: Tensor, sizes: tuple[int, ...]) -> None:
        self._ptr = ptr
        self._sizes = sizes

    @property
    def ptr(self) -> Tensor:
        """(G+1,) int64, first row of every graph and the total, on the device of the batch."""
        return self._ptr

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows per graph, on the host."""
        return self._sizes

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
        return self._ptr.shape[0] - 1

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
        """Device of ``ptr`` and everything derived from it."""
        return self._ptr.device

    @tensor_property
    def graph_id(self) -> Tensor:
        """(N,) int64, the graph of every row."""
        graphs = torch.arange(self.num_graphs, device=self.device)
        return torch.repeat_interleave(graphs, self.size_tensor, output_size=self.num_rows)

    @tensor_property
    def size_tensor(self) -> Tensor:
        """(G,) int64, ``sizes`` on the device."""
        return self.ptr[1:] - self.ptr[:-1]

    @cached_property
    def distinct_sizes(self) -> tuple[int, ...]:
        """Sizes of its graphs, each once, ascending, without 0."""
        return tuple(sorted(set(self.sizes) - {0}))

    @cached_property
    def pair_starts(self) -> tuple[int, ...]:
        """(G+1,) on the host: first pair of every graph in the order of PairBlocks, and the total P = sum n_g^2."""
        return (0, *np.cumsum([size * size for size in self.sizes]).tolist())

    @tensor_property
    def pair_ptr(self) -> Tensor:
        """(G+1,) int64, ``pair_starts`` on the device."""
        return torch.tensor(self.pair_starts, dtype=torch.int64).to(self.device, non_blocking=True)

    @tensor_property
    def pair_graph(self) -> Tensor:
        """(P,) int64, the graph of every pair."""
        graphs = torch.arange(self.num_graphs, device=self.device)
        return torch.repeat_interleave(graphs, self.size_tensor.square(), output_size=self.num_pairs)

    @tensor_property
    def pair_ends(self) -> tuple[Tensor, Tensor]:
        """(P,) int64 rows i and j of every pair."""
        size, first = self.size_tensor[self.pair_graph], self.ptr[self.pair_graph]
        within = torch.arange(self.num_pairs, device=self.device) - self.pair_ptr[self.pair_graph]
        return first + within.div(size, rounding_mode="floor"), first + within.remainder(size)

    def with_token(self) -> Ragged:
        """The partition in which every graph has one row more."""
        return Ragged.from_sizes([size + 1 for size in self.sizes], self.device)

    @cached_property
    def num_pairs(self) -> int:
        """P, ordered pairs of nodes of one graph."""
        return self.pair_starts[-1]

    @tensor_property
    def layout(self) -> PaddedLayout:
        """All non-empty graphs in buckets of similar size."""
        return padded_layout(self.sizes, similar_sizes(self.sizes), self.device)

    def layout_for_pairs(self, heads: int, pairs: int) -> PaddedLayout:
        """Layout in buckets of about ``pairs`` pairs of nodes, times heads: what stays in a cache."""
        return self.derived(_layout_for_pairs, heads, pairs)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Buckets of :attr:`layout`, largest first."""
        return self.layout.buckets

    def to_buckets(self, rows: Tensor) -> list[Tensor]:
        """Splits a ragged tensor into dense blocks, one per bucket.

        Args:
            rows: (N, ...) grouped by graph.

        Returns:
            One (B, L, ...) tensor per entry of :attr:`buckets`. Padding cells repeat the graph's first row and have
            no gradient: whoever uses the blocks must not let padding reach a result.
        """
        return self.layout.split(rows)

    def from_buckets(self, blocks: Sequence[Tensor]) -> Tensor:
        """Inverse of :meth:`to_buckets`: puts dense blocks back into one ragged tensor, dropping padding.

        Args:
            blocks: one (B, L, ...) tensor per bucket.

        Returns:
            (N, ...) grouped by graph.

        Raises:
            ValueError: the number of blocks differs from the number of buckets, or there is none to take the
                trailing shape from.
        """
        return self.layout.join(blocks)

    def pair_index(self, bucket: Bucket) -> Tensor:
        """(B, L, L) int64 number of every pair of a bucket; padding repeats the first pair of its graph."""
        return self.derived(_pair_index, bucket)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Ragged:
        """Partition on another device (itself where nothing moves)."""
        moved = self.ptr.to(device, non_blocking=non_blocking)
        return self if moved is self.ptr else Ragged(moved, self.sizes)

    def pin_memory(self) -> Ragged:
        """Partition in page-locked memory."""
        return Ragged(self.ptr.pin_memory(), self.sizes)


def _pair_index(ragged: Ragged, bucket: Bucket) -> Tensor:
    graphs = list(bucket.graphs)
    first = np.asarray(ragged.pair_starts)[graphs, None, None]
    size = np.asarray(ragged.sizes)[graphs, None, None]
    i, j = np.arange(bucket.length)[:, None], np.arange(bucket.length)
    index = first + np.where((i < size) & (j < size), i * size + j, 0)
    return torch.from_numpy(index).to(ragged.device, non_blocking=True)


def _layout_for_pairs(ragged: Ragged, heads: int, pairs: int) -> PaddedLayout:
    return padded_layout(ragged.sizes, bounded_pairs(ragged.sizes, heads, pairs), ragged.device)
