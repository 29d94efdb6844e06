"""Rows of all nodes or edges, collected block by block."""

from __future__ import annotations

from torch import Tensor

from graphbench.structures import Features, SparseRows
from graphbench.structures.node_blocks import HostRows, NodeBlocks


def dense_rows(rows: HostRows) -> Tensor:
    """Rows that are not sparse."""
    assert isinstance(rows.tensor, Tensor)
    return rows.tensor


class Collected:
    """Rows written block by block; memory is allocated when the first block shows type and width.

    Args:
        graph: gives the memory.
        total: rows in the end.
    """

    def __init__(self, graph: NodeBlocks, total: int) -> None:
        self._graph, self._total = graph, total
        self._rows: HostRows | None = None
        self._sparse: list[SparseRows] = []

    @property
    def started(self) -> bool:
        """Whether a dense block was put."""
        return self._rows is not None

    def put(self, values: Features, first: int) -> None:
        """Writes a block whose first row has this number."""
        if isinstance(values, SparseRows):  # raw features; their number is not known before
            self._sparse.append(values.to("cpu"))
            return
        if self._rows is None:
            self._rows = self._graph.empty(self._total, values)
        assert isinstance(self._rows.tensor, Tensor)
        self._rows.tensor[first : first + values.shape[0]] = values.detach()
        self._rows.release()

    def rows(self) -> HostRows:
        """What was collected."""
        if self._sparse:
            return HostRows(SparseRows.cat(self._sparse))
        assert self._rows is not None
        return self._rows
