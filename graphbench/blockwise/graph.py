"""One graph too large for a forward pass, seen block by block.

A block is a range of consecutive nodes. Layer by layer every block is computed from the finished states of the layer
before, which lie on the host (in memory, or in files behind it), so that memory depends on the size of a block and
not on that of the graph. Worked example, the edges 0->1, 2->1, 1->3 in the blocks 0..1 and 2..3::

    bounds (0, 2, 4)     edge_ptr [0, 0, 2, 2, 3]     edges sorted by target: 0->1, 2->1, 1->3
    neighborhood(0)      nodes [0, 1 | 2], edges 0->1, 2->1, which are rows 0 .. 1 of all edge states
    neighborhood(1)      nodes [2, 3 | 1], edge 2->1 in the neighbourhood's own numbers (node 1 is its third)
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, runtime_checkable

import torch
from torch import Tensor

from graphbench.structures.graph_batch import GraphBatch
from graphbench.structures.ragged import Ragged
from graphbench.structures.sparse_rows import Features


@dataclass(frozen=True, eq=False)
class HostRows:
    """Rows on the host, in memory or in a file that is mapped into it.

    Attributes:
        tensor: (R, ...) the rows; sparse ones only where they are raw features.
        mapped: the mapping behind them, or None. Its file is gone when the tensor is.
    """

    tensor: Features
    mapped: mmap.mmap | None = None

    def release(self) -> None:
        """Takes the pages of a mapped file out of the process; their content stays in the file."""
        if self.mapped is not None and hasattr(self.mapped, "madvise"):
            self.mapped.madvise(mmap.MADV_DONTNEED)


class BlockwiseModel(ABC):
    """A model that can predict the nodes of one graph block by block."""

    @abstractmethod
    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions that ``forward`` makes for all nodes of one graph, in evaluation, with bounded memory.

        Args:
            graph: in blocks.

        Returns:
            (N, out_dim) on the host.

        Raises:
            ValueError: the encoder, a layer or the head cannot work block by block.
        """


class WholeGraphNeeded(ValueError):
    """Something asked a part of a graph for what only the whole graph knows."""


class RowsOfGraph(Ragged):
    """Some rows of one graph: their number is known, but not where the graph begins and ends.

    Sums over a graph, its size and attention inside it would silently become those of a part, so that everything
    they are computed from is refused.

    Args:
        rows: their number.
        device: where they lie.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        self.__dict__.update(num_rows=rows, _device=device)

    @property
    def device(self) -> torch.device:
        """Where the rows lie."""
        device: torch.device = self.__dict__["_device"]
        return device

    @property
    def ptr(self) -> NoReturn:
        """Not at hand."""
        raise WholeGraphNeeded("only a part of the graph is at hand, whose size and sums are not those of the graph")

    sizes = ptr


class NodeRows(GraphBatch):
    """Nodes of one graph whose edges are not at hand: whatever works row by row works on it, the rest is refused."""

    @property
    def edge_index(self) -> Tensor:
        """Not at hand.

        Raises:
            WholeGraphNeeded: always.
        """
        raise WholeGraphNeeded("only a part of the nodes is at hand, without edges")

    @edge_index.setter
    def edge_index(self, value: Tensor) -> None:
        """Forgets the edges (a dataclass sets all of its fields)."""

    @property
    def device(self) -> torch.device:
        """Where the batch lies."""
        return self.ragged.device

    @classmethod
    def of(cls, rows: int, device: torch.device, **fields: Any) -> NodeRows:
        """Some nodes of one graph.

        Args:
            rows: their number.
            device: where they lie.
            fields: other fields of a batch.
        """
        return cls(RowsOfGraph(rows, device), torch.empty(2, 0, dtype=torch.int64), **fields)


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """A block of nodes with everything that reaches them in one step.

    Attributes:
        batch: a part of one graph: the B nodes of the block first, then the other sources of their incoming edges;
            only edges into the block, sorted by target. Without features; on the device.
        nodes: (N',) int64 numbers of its nodes in the whole graph, on the host.
        edges: (first, last) rows of these edges in the whole graph's list sorted by target.
        in_degree: (N',) int64 incoming edges of its nodes in the whole graph, on the device.
        loops: (N',) int64 how many of those are self loops, on the device.
        size: B.
    """

    batch: GraphBatch
    nodes: Tensor
    edges: tuple[int, int]
    in_degree: Tensor
    loops: Tensor
    size: int


@runtime_checkable
class NodeBlocks(Protocol):
    """What a model needs of a graph in order to predict block by block.

    Attributes:
        bounds: first node of every block and the number of nodes.
        num_edges: E, directed.
        y: targets of all nodes, on the host.
        device: where blocks are computed.
    """

    bounds: tuple[int, ...]
    num_edges: int
    y: Tensor | None
    device: torch.device

    def nodes(self, block: int) -> NodeRows:
        """The nodes of a block with features and encodings, on the device."""
        ...

    def edges(self, block: int) -> GraphBatch:
        """The edges into a block with their features, on the device; end points are not numbered, and count as 0."""
        ...

    def neighborhood(self, block: int) -> Neighborhood:
        """A block with what reaches it."""
        ...

    def empty(self, rows: int, like: Tensor) -> HostRows:
        """Room for ``rows`` rows of the type and width of ``like``."""
        ...

    def cast(self, dtype: torch.dtype) -> NodeBlocks:
        """The same graph with floating features in another type."""
        ...
