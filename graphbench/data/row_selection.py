"""Rows of a concatenated tensor that belong to chosen graphs: the index arithmetic of batching.

Worked example: graphs of 2, 3 and 1 rows, chosen in the order 1, 0::

    ptr             [0, 2, 5, 6]
    first, counts   [2, 0], [3, 2]
    offsets         [0, 3, 5]                first row of each chosen graph in the batch
    index           [2, 3, 4, 0, 1]          = repeat(first - offsets[:-1], counts) + [0, 1, 2, 3, 4]

Everything that is as long as the batch has graphs is computed on the host, where the sizes lie, so that nothing ever
waits for the device. What is as long as it has rows is computed where the data lies: by NumPy on the host (a third of
the time that torch takes for arrays this small, and no threads that wait for each other on a busy machine), by torch
on a device.
"""

from __future__ import annotations

from typing import overload

import numpy as np
import torch
from torch import Tensor

from graphbench.structures import Features, SparseRows


class GraphSelection:
    """Some graphs of a store, in the order in which a batch holds them.

    Args:
        graphs: (B,) int64 graph numbers.
        device: device of the rows that belong to them.

    Attributes:
        contiguous: True for neighbouring graphs in the order of the store: their rows are a slice.
    """

    __slots__ = ("contiguous", "device", "graphs")

    def __init__(self, graphs: np.ndarray, device: torch.device) -> None:
        self.graphs, self.device = graphs, device
        self.contiguous = len(graphs) == 0 or bool(
            graphs[-1] - graphs[0] + 1 == len(graphs) and (graphs[1:] - graphs[:-1] == 1).all()
        )

    def rows(self, ptr: np.ndarray) -> RowSelection:
        """The rows of these graphs.

        Args:
            ptr: (G+1,) int64, first row of every graph of the store and the total.
        """
        first = ptr[self.graphs]
        return RowSelection(first, ptr[self.graphs + 1] - first, self.contiguous, self.device)

    def per_graph(self) -> RowSelection:
        """One row per graph, for what a store keeps per graph."""
        index = to_device(self.graphs, self.device)
        return RowSelection(self.graphs, np.ones_like(self.graphs), self.contiguous, self.device, index)


class RowSelection:
    """Rows ``first[i] .. first[i] + counts[i]`` of a concatenated tensor, one run per chosen graph.

    Args:
        first: (B,) int64.
        counts: (B,) int64.
        contiguous: the runs follow one another, so that they are one slice.
        device: device of the rows.
        index: (total,) int64, the rows, where they are known; else computed when they are asked for.

    Attributes:
        offsets: (B+1,) int64, first row of each graph in the batch and the total.
        total: rows in the batch.
    """

    # Plain slots: the locks of cached_property and the checks of a frozen dataclass took a tenth of a batch's time.
    __slots__ = ("_host", "_index", "contiguous", "counts", "device", "first", "offsets", "total")

    def __init__(
        self,
        first: np.ndarray,
        counts: np.ndarray,
        contiguous: bool,
        device: torch.device,
        index: Tensor | None = None,
    ) -> None:
        self.first = first
        self.counts = counts
        self.contiguous = contiguous
        self.device = device
        self.offsets = np.zeros(len(counts) + 1, dtype=np.int64)
        counts.cumsum(out=self.offsets[1:])
        self.total = int(self.offsets[-1])
        self._host = _is_host(device)
        self._index = index

    @property
    def index(self) -> Tensor:
        """(total,) int64, the row of the store for every row of the batch."""
        if self._index is None:
            start = self.spread(self.first - self.offsets[:-1])
            self._index = start.add_(torch.arange(self.total, device=self.device))
        return self._index

    def spread(self, values: np.ndarray) -> Tensor:
        """One value per row.

        Args:
            values: (B,) one value per graph.
        """
        if self._host:
            return torch.from_numpy(values.repeat(self.counts))
        return torch.repeat_interleave(
            to_device(values, self.device), to_device(self.counts, self.device), output_size=self.total
        )

    @overload
    def take(self, tensor: Tensor, dim: int = 0) -> Tensor: ...

    @overload
    def take(self, tensor: Features, dim: int = 0) -> Features: ...

    def take(self, tensor: Features, dim: int = 0) -> Features:
        """Selected rows of a tensor, in its type: a view where they are a slice."""
        if self.contiguous:
            return tensor.narrow(dim, int(self.first[0]) if len(self.first) else 0, self.total)
        if self._host and isinstance(tensor, Tensor) and tensor.dtype != torch.bfloat16:  # which NumPy does not know
            # Nothing to clip: it is the mode that does not look at every number twice.
            return torch.from_numpy(tensor.numpy().take(self.index.numpy(), axis=dim, mode="clip"))
        return tensor.index_select(dim, self.index)

    def take_nodes(self, tensor: Tensor, first_node: np.ndarray) -> Tensor:
        """Selected rows (the last dimension) of node numbers that count inside each graph, as numbers of the batch.

        Args:
            tensor: (..., rows) integer.
            first_node: (B,) number in the batch of the first node of every graph.
        """
        chosen = self.take(tensor, dim=tensor.dim() - 1)
        if len(self.counts) < 2:
            return chosen.to(torch.int64)
        shift = self.spread(first_node)
        if self._host:
            return torch.from_numpy(chosen.numpy() + shift.numpy())
        return chosen + shift


@overload
def widened(tensor: Tensor) -> Tensor: ...


@overload
def widened(tensor: Features) -> Features: ...


def widened(tensor: Features) -> Features:
    """Narrow integers as int64; everything else unchanged."""
    if isinstance(tensor, SparseRows) or tensor.is_floating_point() or tensor.dtype in (torch.int64, torch.bool):
        return tensor
    return torch.from_numpy(tensor.numpy().astype(np.int64)) if _is_host(tensor.device) else tensor.to(torch.int64)


def to_device(values: np.ndarray, device: torch.device) -> Tensor:
    """Copies a short array to a device; copies this short are staged by the driver, so the host does not wait."""
    return torch.from_numpy(values).to(device, non_blocking=True)


def _is_host(device: torch.device) -> bool:
    return device.type == "cpu"
