"""Arguments and results of :func:`~graphbench.ops.batch_rows.batch_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["values", "ends", "order", "graphs"]


@dataclass(frozen=True, eq=False)
class Field:
    """Rows of a data set.

    Attributes:
        source: (R, ...) values of any type; (2, R) for ends of pairs and for orders.
        kind: ``values`` are copied. ``ends`` are numbers of nodes within their graph, and become numbers of nodes of
            the batch. ``order`` are numbers of rows within their graph, and become numbers of rows of the batch, where
            padding keeps its place. ``graphs`` are values of which every graph has one row.
        level: kind of the rows, as they are numbered in ``ptr``; 0 for ``graphs``.
        widen: make narrow integers int64, as numbers always are.
    """

    source: Tensor
    kind: Kind = "values"
    level: int = 0
    widen: bool = False

    @property
    def is_numbered(self) -> bool:
        """Whether it holds numbers of nodes or rows, in two lines."""
        return self.kind in ("ends", "order")

    @property
    def dtype(self) -> torch.dtype:
        """Type of the result."""
        kept = self.source.is_floating_point() or self.source.dtype == torch.bool or not self.widen
        return self.source.dtype if kept and not self.is_numbered else torch.int64


@dataclass(frozen=True)
class RowCapacity:
    """Shape of the batch.

    Attributes:
        rows: number of rows of every kind.
        padding_graphs: K, behind the places of the graphs.
        max_size: most nodes of a padding graph.
    """

    rows: tuple[int, ...]
    padding_graphs: int
    max_size: int


@dataclass(frozen=True, eq=False)
class PaddedRows:
    """A batch.

    Attributes:
        offsets: (L, G+1) int64 with G = B + K: first row of every graph and the total. For nodes that is the partition
            into graphs, padding graphs included; of other kinds, what is padding belongs to the last graph.
        num_graphs: () int64, graphs that are no padding.
        fields: gathered fields in the order asked for.
        real: (R,) bool per kind of rows, False for padding.
        real_graphs: (G,) bool, the same of graphs.
        lists: (2, N + 1) where the edges of every node begin and (2, E) the node at their other end, both grouped by
            target and by source, of the first ``order`` and the ``ends`` of its kind; None where nobody has made them.
    """

    offsets: Tensor
    num_graphs: Tensor
    fields: list[Tensor]
    real: list[Tensor]
    real_graphs: Tensor
    lists: tuple[Tensor, Tensor] | None = None
