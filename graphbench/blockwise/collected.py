"""Rows of all nodes or edges, collected block by block."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphbench.blockwise.exchange import gather, spread
from graphbench.structures import Features, SparseRows
from graphbench.structures.node_blocks import HostRows, NodeBlocks


def dense_rows(rows: HostRows) -> Tensor:
    """Rows that are not sparse."""
    assert isinstance(rows.tensor, Tensor)
    return rows.tensor


@dataclass
class _Part:
    """Rows that one process has put.

    Attributes:
        first: row.
        last: the row behind the last one.
        like: (0, ...) type and width of dense rows; None: there are none.
        sparse: rows, in their order.
    """

    first: int
    last: int
    like: Tensor | None
    sparse: list[SparseRows]


class Collected:
    """Rows written block by block; memory is allocated when the first block shows type and width.

    Every process puts its blocks, all of them have all rows in the end.

    Args:
        graph: gives the memory.
        total: rows in the end.
        by_column: a column of dense rows (R, d) is contiguous, for readers of single columns: of a file that does not
            fit in memory, each of them would read everything otherwise.
    """

    def __init__(self, graph: NodeBlocks, total: int, *, by_column: bool = False) -> None:
        self._graph, self._total, self._by_column = graph, total, by_column
        self._rows: HostRows | None = None
        self._part = _Part(0, 0, None, [])

    def put(self, values: Features, first: int) -> None:
        """Writes a block whose first row has this number; blocks come in their order."""
        part = self._part
        if isinstance(values, SparseRows):  # raw features; their number is not known before
            part.sparse.append(values.to("cpu"))
            return
        if part.like is None:
            part.like, part.first = values[:0].detach().cpu(), first
        part.last = first + values.shape[0]
        rows = self._allocated(part.like)
        rows.read_at_random()  # what is there before is not wanted
        dense_rows(rows)[first : part.last] = values.detach()
        rows.release()

    def rows(self) -> HostRows:
        """Collected rows of all processes."""
        rows = self.rows_or_none()
        assert rows is not None
        return rows

    def rows_or_none(self) -> HostRows | None:
        """Collected rows of all processes, or None where none has put anything."""
        parts = gather(self._part, self._graph)
        sparse = [rows for part in parts for rows in part.sparse]
        if sparse:
            return HostRows(SparseRows.cat([rows.to("cpu") for rows in sparse]))
        like = next((part.like for part in parts if part.like is not None), None)
        if like is None:
            return None
        rows = self._allocated(like)
        for rank, part in enumerate(parts if len(parts) > 1 else ()):
            spread(dense_rows(rows), part.first, part.last, rank, self._graph)
            rows.release()
        return rows

    def _allocated(self, like: Tensor) -> HostRows:
        if self._rows is None and self._by_column:
            columns = self._graph.empty(like.shape[1], like.new_empty(0, self._total))
            self._rows = HostRows(dense_rows(columns).T, columns.mapped)
        elif self._rows is None:
            self._rows = self._graph.empty(self._total, like)
        return self._rows
