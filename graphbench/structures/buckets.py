"""Graphs padded together: the layout of a ragged batch as buckets of graphs, and of their pairs as tiles.

Worked example: graphs of 2, 0 and 3 rows in one bucket of length 3::

    row_of_cell   [0, 1, 0,   2, 3, 4]        cells of graph 0, then of graph 2; padding repeats the first row
    cell_of_row   [0, 1, 3, 4, 5]
    bucket.mask   [[True, True, False], [True, True, True]]

Which graphs share a bucket is decided by one of two rules, :func:`similar_sizes` and :func:`bounded_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphbench.structures.first_order import first_order

# A bucket takes graphs down to this fraction of its longest one (or a few rows less, for tiny graphs, where the
# overhead of one more batched operation exceeds the padding). 0.8 wastes at most 36 % of a bucket's pairs.
_FRACTION = 0.8
_SLACK = 8
# Padded pairs (times heads) that cost as much as one more bucket (about 30 calls into torch).
_OVERHEAD = 1 << 14
# Numbers of float32 that one instruction of a processor multiplies, at most.
_VECTOR = 16
# Least query rows of a tile that does not hold all rows of its graph.
_LEAST_ROWS = 64


@dataclass(frozen=True, eq=False)
class Bucket:
    """B graphs of similar size, padded to L rows each.

    Attributes:
        graphs: numbers of the graphs in the batch, in the order of the cells.
        length: L, rows of the largest of them.
        start: first of the B * L cells in the layout.
        mask: (B, L) bool, True for real rows; None when every graph has L rows.
    """

    graphs: tuple[int, ...]
    length: int
    start: int
    mask: Tensor | None

    @property
    def cells(self) -> slice:
        """Place of the bucket in the layout."""
        return slice(self.start, self.start + len(self.graphs) * self.length)

    def view(self, packed: Tensor) -> Tensor:
        """(B, L, ...) view of the bucket's cells in (cells, ...)."""
        return packed[self.cells].view(len(self.graphs), self.length, *packed.shape[1:])

    def heads_first(self, packed: Tensor) -> Tensor:
        """(B * H, L, width), from (cells, H, width); a view where the bucket is one graph."""
        return self.view(packed).transpose(1, 2).reshape(-1, self.length, packed.shape[2])

    def operands(self, packed: Tensor) -> Tensor:
        """(B * H, L, width) as :meth:`heads_first`, as they lie for fast products on a CPU.

        A product whose result is narrow and no multiple of a vector takes MKL up to four times as long as its
        transpose: there channels come before rows in memory, and every product of operands is written the other way
        round (:func:`graphbench.ops.bucket_pairs.product`).
        """
        width = packed.shape[2]
        if width % _VECTOR == 0:
            return self.heads_first(packed)
        channels = self.view(packed).permute(0, 2, 3, 1).contiguous()
        return channels.view(-1, width, self.length).transpose(1, 2)

    def block(self, packed: Tensor) -> Tensor:
        """(B * H, L, width) to be filled for :meth:`put_block`; part of ``packed`` where the bucket is one graph."""
        if len(self.graphs) == 1:
            return self.heads_first(packed)
        return packed.new_empty(len(self.graphs) * packed.shape[1], self.length, packed.shape[2])

    def put(self, block: Tensor, packed: Tensor) -> None:
        """Writes what :meth:`heads_first` reads."""
        self.view(packed).copy_(block.view(len(self.graphs), -1, self.length, packed.shape[2]).transpose(1, 2))

    def put_block(self, block: Tensor, packed: Tensor) -> None:
        """:meth:`put` of a :meth:`block`, unless it is part of ``packed``."""
        if len(self.graphs) > 1:
            self.put(block, packed)

    def padding(self, dtype: torch.dtype) -> Tensor | None:
        """(B, 1, 1, L) to be added to scores: 0 for real keys, minus infinity for padding; None without padding."""
        if self.mask is None:
            return None
        zeros = torch.zeros(self.mask.shape, dtype=dtype, device=self.mask.device)
        return zeros.masked_fill_(~self.mask, -torch.inf)[:, None, None]

    def tiles(self, heads: int, pairs: int) -> Iterator[tuple[slice, slice]]:
        """(rows of B * H, query rows) of the tiles that the pairs of the bucket are handled in.

        Args:
            heads: H.
            pairs: most pairs of a tile, times heads. The bucket is one tile unless it is a single graph with more.
        """
        batch, of_head = len(self.graphs) * heads, self.length * self.length
        if batch * of_head <= pairs or len(self.graphs) > 1:
            yield slice(0, batch), slice(0, self.length)
            return
        head_step = max(1, pairs // of_head)
        row_step = self.length if of_head <= pairs else max(_LEAST_ROWS, pairs // self.length)
        for head in range(0, batch, head_step):
            for row in range(0, self.length, row_step):
                yield slice(head, min(head + head_step, batch)), slice(row, min(row + row_step, self.length))


@dataclass(frozen=True, eq=False)
class PaddedLayout:
    """The cells of all buckets of a ragged batch of N rows, one bucket after the other. Empty graphs have none.

    Attributes:
        buckets: largest graphs first.
        row_of_cell: (cells,) int64, the row in every cell; padding repeats the first row of its own graph, so that
            whatever is read there belongs to that graph. None where cells are the rows in their order.
        cell_of_row: (N,) int64, the inverse.
        mask: (cells,) bool, True for real rows; None without padding.
    """

    buckets: tuple[Bucket, ...]
    row_of_cell: Tensor | None
    cell_of_row: Tensor
    mask: Tensor | None

    def pack(self, rows: Tensor) -> Tensor:
        """(cells, ...), from (N, ...)."""
        return rows if self.row_of_cell is None else rows.index_select(0, self.row_of_cell)

    def unpack(self, packed: Tensor) -> Tensor:
        """Inverse of :meth:`pack`, without the padding."""
        return packed if self.row_of_cell is None else packed.index_select(0, self.cell_of_row)

    def zero_padding(self, packed: Tensor) -> Tensor:
        """(cells, ...) with 0 in the cells that are padding."""
        return packed if self.mask is None else packed * self.mask.view(-1, *(1 for _ in packed.shape[1:]))

    def split(self, rows: Tensor) -> list[Tensor]:
        """(B, L, ...) of every bucket, from (N, ...); the gradient of padding is dropped."""
        return list(_Split.apply(self, rows)) if self.buckets else []  # type: ignore[no-untyped-call]

    def join(self, blocks: Sequence[Tensor]) -> Tensor:
        """Inverse of :meth:`split`; the gradient of padding is 0.

        Raises:
            ValueError: there is not one block per bucket, or none to take the trailing shape from.
        """
        if len(blocks) != len(self.buckets) or not blocks:
            raise ValueError(f"expected {len(self.buckets)} blocks (at least one), received {len(blocks)}")
        return _Join.apply(self, *blocks)  # type: ignore[no-untyped-call]


class _Split(torch.autograd.Function):
    """One gather in either direction."""

    @staticmethod
    def forward(ctx: Any, layout: PaddedLayout, rows: Tensor) -> tuple[Tensor, ...]:
        ctx.layout = layout
        packed = layout.pack(rows)
        return tuple(bucket.view(packed) for bucket in layout.buckets)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, ctx.layout.unpack(_flat(grads))


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: PaddedLayout, *blocks: Tensor) -> Tensor:
        ctx.layout = layout
        return layout.unpack(_flat(blocks))

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        packed = ctx.layout.zero_padding(ctx.layout.pack(grad.contiguous()))
        return None, *(bucket.view(packed) for bucket in ctx.layout.buckets)


def _flat(blocks: Sequence[Tensor]) -> Tensor:
    flat = [block.reshape(-1, *block.shape[2:]) for block in blocks]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def padded_layout(sizes: Sequence[int], groups: Sequence[Sequence[int]], device: torch.device) -> PaddedLayout:
    """The layout of graphs of these sizes whose buckets are these groups. Computed on the host, copied once."""

    def on_device(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(device, non_blocking=True)

    first_row = np.cumsum([0, *sizes])
    rows, masks = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.bool_)]
    for graphs in groups:
        bucket_sizes = np.asarray([sizes[graph] for graph in graphs])
        column = np.arange(bucket_sizes.max())
        real = column < bucket_sizes[:, None]
        rows.append((first_row[list(graphs)][:, None] + np.where(real, column, 0)).ravel())
        masks.append(real.ravel())
    row_of_cell, is_real = np.concatenate(rows), np.concatenate(masks)
    cell_of_row = np.empty(first_row[-1], dtype=np.int64)
    cell_of_row[row_of_cell[is_real]] = np.flatnonzero(is_real)
    mask = None if is_real.all() else on_device(is_real)
    buckets, start = [], 0
    for graphs, real in zip(groups, masks[1:]):
        length, cells = len(real) // len(graphs), slice(start, start + len(real))
        of_bucket = None if mask is None or real.all() else mask[cells].view(len(graphs), length)
        buckets.append(Bucket(tuple(graphs), length, start, of_bucket))
        start = cells.stop
    is_identity = np.array_equal(row_of_cell, np.arange(len(row_of_cell)))
    return PaddedLayout(
        buckets=tuple(buckets),
        row_of_cell=None if is_identity else on_device(row_of_cell),
        cell_of_row=on_device(cell_of_row),
        mask=mask,
    )


def similar_sizes(sizes: Sequence[int]) -> list[list[int]]:
    """Groups of graphs of similar size; within a group in batch order, so that equal sizes stay contiguous."""
    groups: list[list[int]] = []
    smallest = 0
    for graph in _by_falling_size(sizes):
        if not groups or sizes[graph] < smallest:
            groups.append([])
            smallest = min(int(_FRACTION * sizes[graph]), sizes[graph] - _SLACK)
        groups[-1].append(graph)
    return [sorted(group) for group in groups]


def bounded_pairs(sizes: Sequence[int], heads: int, pairs: int) -> list[list[int]]:
    """Groups of about ``pairs`` pairs of nodes (times heads), cut earlier where padding costs more than a bucket."""
    groups: list[list[int]] = []
    of_largest = left = waste = 0  # pairs of the largest graph of the last group, that still fit, that are padding
    for graph in _by_falling_size(sizes):
        own = heads * sizes[graph] ** 2
        waste += of_largest - own
        if not groups or of_largest > left or waste > _OVERHEAD:
            groups.append([])
            of_largest, left, waste = own, pairs, 0
        groups[-1].append(graph)
        left -= of_largest
    return groups


def _by_falling_size(sizes: Sequence[int]) -> list[int]:
    return sorted((graph for graph in range(len(sizes)) if sizes[graph]), key=lambda graph: -sizes[graph])
