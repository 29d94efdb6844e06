"""Pairs of nodes in a store besides the edges: further edge sets, and k-hop neighbour lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphbench.data.row_selection import GraphSelection, RowSelection, to_device, widened
from graphbench.structures import EdgeSet, HopNeighbors


@dataclass(frozen=True, eq=False)
class StoredEdges:
    """Pairs of nodes of all graphs besides their edges; see :class:`~graphbench.structures.EdgeSet`.

    Attributes:
        ptr: (G+1,) int64, first pair of every graph and the total.
        index: (2, M) integer, numbered from 0 inside each graph, grouped by graph.
        attr: (M, ...) attributes of the pairs, or None.
    """

    ptr: Tensor
    index: Tensor
    attr: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuses offsets that do not cover the pairs."""
        total = int(self.ptr[-1])
        if self.index.shape != (2, total) or (self.attr is not None and self.attr.shape[0] != total):
            raise ValueError(
                f"offsets of {total} pairs do not fit an index of shape {tuple(self.index.shape)}"
                + ("" if self.attr is None else f" with {self.attr.shape[0]} attributes")
            )

    @property
    def num_pairs(self) -> int:
        """M."""
        return self.index.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of what :meth:`to` moves."""
        return self.index.nbytes + (0 if self.attr is None else self.attr.nbytes)

    def gather(self, selection: GraphSelection, first_node: np.ndarray) -> EdgeSet:
        """The pairs of some graphs of a batch.

        Args:
            selection: the graphs.
            first_node: (B,) int64, number of the first node of each graph in the batch.
        """
        rows = self.rows(selection)
        attr = None if self.attr is None else widened(rows.take(self.attr))
        return EdgeSet(rows.take_nodes(self.index, first_node), to_device(rows.offsets, selection.device), attr)

    def rows(self, selection: GraphSelection) -> RowSelection:
        """Rows of the pairs of some graphs."""
        return selection.rows(self.ptr.numpy())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> StoredEdges:
        """Stored pairs on another device; the offsets stay on the host."""
        attr = None if self.attr is None else self.attr.to(device, non_blocking=non_blocking)
        return StoredEdges(self.ptr, self.index.to(device, non_blocking=non_blocking), attr)


@dataclass(frozen=True, eq=False)
class StoredHops:
    """Neighbour lists of the nodes of all graphs; see :class:`~graphbench.structures.HopNeighbors`.

    Attributes:
        row_ptr: (N+1,) int64, first neighbour of every node and the total.
        col: (P,) integer, numbered from 0 inside each graph.
        hop: (P,) uint8.
    """

    row_ptr: Tensor
    col: Tensor
    hop: Tensor

    def __post_init__(self) -> None:
        """Refuses offsets that do not cover the neighbours."""
        total = int(self.row_ptr[-1])
        if self.col.shape != (total,) or self.hop.shape != (total,):
            raise ValueError(
                f"offsets of {total} neighbours do not fit col {tuple(self.col.shape)} and hop {tuple(self.hop.shape)}"
            )

    @property
    def nbytes(self) -> int:
        """Bytes of what :meth:`to` moves."""
        return self.row_ptr.nbytes + self.col.nbytes + self.hop.nbytes

    def gather(self, rows: RowSelection, nodes: RowSelection) -> HopNeighbors:
        """The neighbours of the nodes of some graphs.

        Args:
            rows: rows of the neighbours of these graphs.
            nodes: rows of the nodes of these graphs.
        """
        shift = nodes.spread(rows.offsets[:-1] - rows.first)
        end = to_device(rows.offsets[-1:], rows.device)
        row_ptr = torch.cat([nodes.take(self.row_ptr[:-1]) + shift, end])
        return HopNeighbors(row_ptr, rows.take_nodes(self.col, nodes.offsets[:-1]), rows.take(self.hop))

    def to(self, device: torch.device | str, non_blocking: bool = False) -> StoredHops:
        """Stored neighbours on another device."""
        return StoredHops(*(part.to(device, non_blocking=non_blocking) for part in (self.row_ptr, self.col, self.hop)))
