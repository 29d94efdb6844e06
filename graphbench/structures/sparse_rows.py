"""Node features that are almost all zeros: compressed sparse rows, with their transpose kept.

Worked example, three nodes and four columns::

    [[0, 2, 0, 0],        ptr     [0, 1, 1, 3]        row i is entries ptr[i] .. ptr[i+1]
     [0, 0, 0, 0],        column  [1, 0, 3]
     [5, 0, 0, 7]]        value   [2., 5., 7.]        width 4

A linear map reads them as they are (:mod:`graphbench.ops.sparse_linear`); :func:`as_dense` is for everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Columns:
    """The entries of sparse rows, grouped by column (stable: rows ascend within a column).

    Attributes:
        ptr: (F+1,) int64, entries of every column.
        row: (nnz,) int64, their rows.
        entry: (nnz,) int64, their places in the order of the rows.
    """

    ptr: Tensor
    row: Tensor
    entry: Tensor


@dataclass(frozen=True, eq=False)
class SparseRows:
    """(N, F) floating matrix in compressed sparse rows. Rows may be empty; entries of one place add up.

    What is derived (the transpose, the dense form) is computed when first asked for and kept.

    Attributes:
        ptr: (N+1,) int64, first entry of every row and the total.
        column: (nnz,) int64, column of every entry.
        value: (nnz,) floating.
        width: F.
    """

    ptr: Tensor
    column: Tensor
    value: Tensor
    width: int
    _like: SparseRows | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuses parts that do not belong together; the columns themselves are not read."""
        if self.column.shape != self.value.shape or self.value.dim() != 1 or not self.value.is_floating_point():
            raise ValueError(
                "sparse rows need one floating value and one column per entry, received "
                f"{self.value.dtype} of shape {tuple(self.value.shape)} and columns of shape {tuple(self.column.shape)}"
            )

    @classmethod
    def of(cls, matrix: Tensor) -> SparseRows:
        """The nonzero entries of an (N, F) floating tensor, which may be one of torch's sparse ones."""
        if matrix.layout == torch.strided:
            row, column = matrix.nonzero(as_tuple=True)
            value = matrix[row, column]
        else:
            entries = matrix.to_sparse_coo().coalesce()
            (row, column), value = entries.indices(), entries.values()
        ptr = torch.zeros(matrix.shape[0] + 1, dtype=torch.int64, device=matrix.device)
        ptr[1:] = torch.bincount(row, minlength=matrix.shape[0]).cumsum(0)
        return cls(ptr, column, value, matrix.shape[1])

    # ------------------------------------------------------------------ facts, under the names that tensors have

    @property
    def shape(self) -> torch.Size:
        """(N, F)."""
        return torch.Size((self.ptr.numel() - 1, self.width))

    def __len__(self) -> int:
        return self.ptr.numel() - 1

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.value.dtype

    @property
    def device(self) -> torch.device:
        """Device of the entries."""
        return self.value.device

    def is_floating_point(self) -> bool:
        """True."""
        return True

    # ------------------------------------------------------------------ derived

    @cached_property
    def row(self) -> Tensor:
        """(nnz,) int64, the row of every entry."""
        if self._like is not None:
            return self._like.row
        rows = torch.arange(len(self), device=self.device)
        return torch.repeat_interleave(rows, self.ptr.diff(), output_size=self.value.numel())

    @cached_property
    def by_column(self) -> Columns:
        """The entries grouped by column: what the gradient of a linear map is summed over."""
        if self._like is not None:
            return self._like.by_column
        entry = torch.argsort(self.column, stable=True)
        ptr = torch.zeros(self.width + 1, dtype=torch.int64, device=self.device)
        ptr.scatter_add_(0, self.column + 1, torch.ones_like(self.column))
        return Columns(ptr.cumsum(0), self.row[entry], entry)

    @cached_property
    def value_by_column(self) -> Tensor:
        """(nnz,) the values in the order of :attr:`by_column`."""
        return self.value.detach()[self.by_column.entry]

    @cached_property
    def _dense(self) -> Tensor:
        zeros = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        return zeros.index_put_((self.row, self.column), self.value, accumulate=True)

    def dense(self) -> Tensor:
        """(N, F) tensor with the zeros written out; kept, so that a layer that needs it in every step pays once."""
        return self._dense

    # ------------------------------------------------------------------ other rows, values and places

    def narrow(self, dim: int, start: int, length: int) -> SparseRows:
        """Rows ``start .. start + length``; itself for all of them."""
        _rows_only(dim)
        if start == 0 and length == len(self):
            return self
        first, last = self.ptr[[start, start + length]].tolist()
        return SparseRows(
            self.ptr[start : start + length + 1] - first, self.column[first:last], self.value[first:last], self.width
        )

    def __getitem__(self, rows: slice) -> SparseRows:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"sparse rows are cut into slices of step 1, received step {step}; see index_select")
        return self.narrow(0, start, max(stop - start, 0))

    def index_select(self, dim: int, index: Tensor) -> SparseRows:
        """Some rows in any order, repetitions allowed.

        Args:
            dim: 0.
            index: (n,) integer row numbers.
        """
        _rows_only(dim)
        index = index.to(torch.int64)
        first = self.ptr[index]
        count = self.ptr[index + 1] - first
        ptr = torch.zeros(index.numel() + 1, dtype=torch.int64, device=self.device)
        ptr[1:] = count.cumsum(0)
        total = int(ptr[-1])
        entry = torch.repeat_interleave(first - ptr[:-1], count, output_size=total)
        entry += torch.arange(total, device=self.device)
        return SparseRows(ptr, self.column[entry], self.value[entry], self.width)

    @classmethod
    def cat(cls, parts: Sequence[SparseRows]) -> SparseRows:
        """Rows of several matrices of one width behind each other, at least one.

        Raises:
            ValueError: widths differ.
        """
        widths = {part.width for part in parts}
        if len(widths) != 1:
            raise ValueError(f"rows behind each other must have one width, received {sorted(widths)}")
        if len(parts) == 1:
            return parts[0]
        ptr, total = [parts[0].ptr[:1]], 0
        for part in parts:
            ptr.append(part.ptr[1:] + total)
            total += part.value.numel()
        column, value = (torch.cat([getattr(part, name) for part in parts]) for name in ("column", "value"))
        return cls(torch.cat(ptr), column, value, parts[0].width)

    def with_values(self, value: Tensor) -> SparseRows:
        """Other values (nnz,) in the same places, whose order by column is shared: dropout asks in every step."""
        return SparseRows(self.ptr, self.column, value, self.width, self if self._like is None else self._like)

    def to(self, to: torch.device | str | torch.dtype, non_blocking: bool = False) -> SparseRows:
        """Rows on another device, or with values of another type (itself where nothing changes)."""
        if isinstance(to, torch.dtype):
            return self if to == self.dtype else self.with_values(self.value.to(to))
        value = self.value.to(to, non_blocking=non_blocking)
        if value is self.value:
            return self
        ptr, column = (index.to(to, non_blocking=non_blocking) for index in (self.ptr, self.column))
        return SparseRows(ptr, column, value, self.width)

    def pin_memory(self) -> SparseRows:
        """Rows in page-locked memory."""
        return SparseRows(self.ptr.pin_memory(), self.column.pin_memory(), self.value.pin_memory(), self.width)


Features: TypeAlias = Tensor | SparseRows
"""Node features as a batch holds them."""


def as_dense(features: Features) -> Tensor:
    """The features as a tensor: themselves, or their dense form."""
    return features.dense() if isinstance(features, SparseRows) else features


def _rows_only(dim: int) -> None:
    if dim != 0:
        raise ValueError(f"sparse rows are selected along dimension 0, received {dim}")
