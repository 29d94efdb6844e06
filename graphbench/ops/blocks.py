"""A ragged batch cut into chunks of graphs and blocks of pairs that stay in the cache; shared by the attentions.

Notation: B graphs of a chunk, H heads, L rows of the longest, i query rows, j key rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from graphbench.structures import Ragged

# Padded pairs that cost as much as one more chunk (about 30 calls into torch).
_OVERHEAD = 1 << 14


@dataclass(frozen=True)
class Chunk:
    """Graphs of similar size that are handled together, padded to the longest.

    Attributes:
        graphs: their numbers in the batch.
        length: L.
        start: first of the B * L cells in the padded layout.
        padding: (B, 1, 1, L), 0 for real keys and minus infinity for padding; None where every graph has L rows.
        limit: pairs (times heads) of a block.
    """

    graphs: tuple[int, ...]
    length: int
    start: int
    padding: Tensor | None
    limit: int

    @property
    def cells(self) -> slice:
        """Where the chunk lies in the padded layout."""
        return slice(self.start, self.start + len(self.graphs) * self.length)

    def heads_first(self, packed: Tensor) -> Tensor:
        """(B * H, L, width) of the chunk from the padded layout (cells, H, width)."""
        part = packed[self.cells].view(len(self.graphs), self.length, *packed.shape[1:])
        return part.transpose(1, 2).reshape(-1, self.length, packed.shape[2])

    def put(self, block: Tensor, packed: Tensor) -> None:
        """Inverse of :meth:`heads_first`."""
        target = packed[self.cells].view(len(self.graphs), self.length, *packed.shape[1:])
        target.copy_(block.view(len(self.graphs), -1, self.length, packed.shape[2]).transpose(1, 2))

    def blocks(self, heads: int) -> Iterator[tuple[slice, slice]]:
        """(rows of B * H, query rows) to handle at a time; more than one only for a graph too large for a block."""
        batch, pairs = len(self.graphs) * heads, self.length * self.length
        if batch * pairs <= self.limit or len(self.graphs) > 1:
            yield slice(0, batch), slice(0, self.length)
            return
        some = max(1, self.limit // pairs)
        rows = self.length if pairs <= self.limit else max(64, self.limit // self.length)
        for head in range(0, batch, some):
            for row in range(0, self.length, rows):
                yield slice(head, min(head + some, batch)), slice(row, min(row + rows, self.length))


@dataclass(frozen=True)
class Plan:
    """Padded layout of a ragged batch: chunks behind each other.

    Attributes:
        chunks: largest graphs first.
        row_of_cell: (cells,) row behind every cell, padding repeats a row of its graph; None for the identity.
        cell_of_row: (N,) the inverse on real cells.
        real: (cells, 1, 1) 1 for real cells and 0 for padding; None without padding.
    """

    chunks: tuple[Chunk, ...]
    row_of_cell: Tensor | None
    cell_of_row: Tensor
    real: Tensor | None

    def pack(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """(cells, ...) of the type, from (N, ...)."""
        return (rows if self.row_of_cell is None else rows.index_select(0, self.row_of_cell)).to(dtype)

    def unpack(self, packed: Tensor, dtype: torch.dtype) -> Tensor:
        """Inverse of :meth:`pack`, without the padding."""
        return (packed if self.row_of_cell is None else packed.index_select(0, self.cell_of_row)).to(dtype)


_PLANS: WeakKeyDictionary[Ragged, dict[tuple[int, int], Plan]] = WeakKeyDictionary()


def plan_of(ragged: Ragged, heads: int, limit: int) -> Plan:
    """The layout for so many heads and blocks of about ``limit`` pairs (times heads), made once per partition."""
    plans = _PLANS.setdefault(ragged, {})
    if (heads, limit) not in plans:
        plans[heads, limit] = _build_plan(ragged.sizes, heads, limit, ragged.device)
    return plans[heads, limit]


def _build_plan(sizes: tuple[int, ...], heads: int, limit: int, device: torch.device) -> Plan:
    def on(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device, non_blocking=True)

    first = np.cumsum([0, *sizes])
    chunks, rows, real, start = [], [], [], 0
    for graphs in _group(sizes, heads, limit):
        each = np.asarray([sizes[g] for g in graphs])
        length = int(each[0])
        column = np.arange(length)
        filled = column < each[:, None]
        padding = None
        if not filled.all():
            padding = on(np.where(filled, 0.0, -np.inf).astype(np.float32)).view(len(graphs), 1, 1, length)
        rows.append((first[graphs][:, None] + np.where(filled, column, 0)).ravel())
        real.append(filled.ravel())
        chunks.append(Chunk(tuple(graphs), length, start, padding, limit))
        start += len(graphs) * length
    row_of_cell, is_real = np.concatenate(rows), np.concatenate(real)
    cell_of_row = np.empty(first[-1], dtype=np.int64)
    cell_of_row[row_of_cell[is_real]] = np.flatnonzero(is_real)
    identity = np.array_equal(row_of_cell, np.arange(len(row_of_cell)))
    return Plan(
        tuple(chunks),
        None if identity else on(row_of_cell),
        on(cell_of_row),
        None if is_real.all() else on(is_real).view(-1, 1, 1),
    )


def _group(sizes: tuple[int, ...], heads: int, limit: int) -> list[list[int]]:
    """Graphs by falling size, cut where a chunk is full or its padding costs more than one more chunk."""
    groups: list[list[int]] = []
    area = room = waste = 0
    for graph in sorted((g for g in range(len(sizes)) if sizes[g]), key=lambda g: -sizes[g]):
        pairs = heads * sizes[graph] ** 2
        waste += area - pairs
        if not groups or area > room or waste > _OVERHEAD:
            groups.append([])
            area, room, waste = pairs, limit, 0
        groups[-1].append(graph)
        room -= area
    return groups


def accumulate(total: Tensor, rows: slice, a: Tensor, b: Tensor) -> None:
    """``total`` becomes the product at the first query rows and grows by it at the others."""
    if rows.start == 0:
        torch.bmm(a, b, out=total)
    else:
        total.baddbmm_(a, b)


def scaled(q: Tensor) -> Tensor:
    """Rows divided by the root of their width."""
    return q * (1.0 / math.sqrt(q.shape[-1]))


def compute_dtype(q: Tensor) -> torch.dtype:
    """Half precision is widened block by block: sums over many keys need more digits than it has."""
    return torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype


def pair_index(graphs: tuple[int, ...], length: int, sizes: tuple[int, ...]) -> Tensor:
    """(B, L, L) number of every pair in the flat layout; cells of padding repeat the first pair of their graph."""
    first = np.cumsum([0, *(size * size for size in sizes)])[list(graphs), None, None]
    size = np.asarray([sizes[g] for g in graphs])[:, None, None]
    i, j = np.arange(length)[:, None], np.arange(length)
    return torch.from_numpy(first + np.where((i < size) & (j < size), i * size + j, 0))
