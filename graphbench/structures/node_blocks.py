"""One graph in blocks of nodes, for evaluation in bounded memory.

A block is a range of consecutive nodes. Layer by layer every block is computed from the finished states of the layer
before, which lie on the host (in memory, or in files behind it), so that memory depends on the size of a block and
not on that of the graph. Worked example, the edges 0->1, 2->1, 1->3 in the blocks 0..1 and 2..3::

    bounds (0, 2, 4)     edge_ptr [0, 0, 2, 2, 3]     edges sorted by target: 0->1, 2->1, 1->3
    neighborhood(0)      nodes [0, 1 | 2], edges 0->1, 2->1, which are rows 0 .. 1 of all edge states
    neighborhood(1)      nodes [2, 3 | 1], edge 2->1 in the neighbourhood's own numbers (node 1 is its third)
"""

from __future__ import annotations

import mmap
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.structures.graph_batch import GraphBatch
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
        if self.mapped is not None and sys.platform != "win32":
            self.mapped.madvise(mmap.MADV_DONTNEED)
            self.mapped.madvise(mmap.MADV_NORMAL)

    def read_at_random(self) -> None:
        """Until :meth:`release` a mapped file is not read ahead.

        Otherwise the system may read megabytes around a page, even of one that is about to be written, which displace
        what is needed next.
        """
        if self.mapped is not None and sys.platform != "win32":
            self.mapped.madvise(mmap.MADV_RANDOM)

    def gather(self, numbers: Tensor) -> Features:
        """Rows (n, ...) from all over the place; see :meth:`read_at_random`."""
        self.read_at_random()
        return self.tensor.index_select(0, numbers)


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


class NodeBlocks(ABC):
    """Access to a graph for a model that predicts block by block.

    Attributes:
        bounds: first node of every block and the number of nodes.
        num_edges: E, directed.
        y: targets of all nodes, on the host.
        device: device that blocks are computed on.
        rank: number of this process among those that share the blocks.
        world_size: number of these processes, each of which has to ask the same of the graph.
    """

    bounds: tuple[int, ...]
    num_edges: int
    y: Tensor | None
    device: torch.device
    rank: int = 0
    world_size: int = 1

    @abstractmethod
    def nodes(self, block: int) -> GraphBatch:
        """The nodes of a block with features and encodings, on the device; edges and the rest are not at hand."""

    @abstractmethod
    def edges(self, block: int) -> GraphBatch:
        """The edges into a block with their features, on the device; end points are not numbered, and count as 0."""

    @abstractmethod
    def edge_span(self, block: int) -> tuple[int, int]:
        """First and last row (exclusive) of the edges into a block, in the list of all sorted by target."""

    @abstractmethod
    def neighborhood(self, block: int) -> Neighborhood:
        """A block with what reaches it."""

    @abstractmethod
    def empty(self, rows: int, like: Tensor) -> HostRows:
        """Uninitialised memory for ``rows`` rows of the type and width of ``like``."""

    @abstractmethod
    def cast(self, dtype: torch.dtype) -> NodeBlocks:
        """Graph with floating features in another type."""
