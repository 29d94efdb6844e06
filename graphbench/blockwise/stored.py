"""The only graph of a store in blocks of nodes, for evaluation in bounded memory."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from graphbench.blockwise.part import PartOfGraph, nodes_of_graph
from graphbench.data.large.arrays import allocate
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.subgraph import edge_rows, has_edge_rows, node_rows
from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch, Ragged
from graphbench.structures.node_blocks import HostRows, Neighborhood, NodeBlocks

CPU = torch.device("cpu")

NODES, EDGES = 2**14, 2**18
"""Largest block. Small enough that the allocator gives memory of the block before again: larger ones are slower."""


class StoredBlocks(NodeBlocks):
    """The graph of a store in blocks.

    Args:
        store: one graph, see :func:`~graphbench.data.large.subgraph.check_one_graph`.
        incoming: edges sorted by target, numbered where something is stored for every edge; None: sorted here.
        device: device that blocks are computed on.
        max_nodes: most nodes of a block, None: :data:`NODES`.
        max_edges: into a block, None: :data:`EDGES`; a single node may have more.
        in_memory: bytes up to which states are kept in memory, see :func:`~graphbench.data.large.arrays.allocate`.
        rank: number of this process.
        world_size: processes that share the blocks.
    """

    def __init__(
        self,
        store: GraphStore,
        *,
        incoming: IncomingEdges | None = None,
        device: torch.device = CPU,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        in_memory: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if incoming is None:
            incoming = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=has_edge_rows(store))
        self.store = store
        self.incoming = incoming
        self.device = device
        self.in_memory = in_memory
        self.dtype: torch.dtype | None = None  # of floating features; None: as stored
        self.rank, self.world_size = rank, world_size
        self.num_edges = store.num_edges
        self.y = store.y
        self.bounds = _bounds(incoming.ptr, max_nodes or NODES, max_edges or EDGES)

    def nodes(self, block: int) -> GraphBatch:
        """The nodes of a block with features and encodings, on the device."""
        first, last = self.bounds[block : block + 2]
        fields = node_rows(self.store, slice(first, last))
        return nodes_of_graph(
            last - first,
            self.device,
            x=self._moved(fields["x"]),
            pe={name: self._moved(value) for name, value in fields["pe"].items()},
        )

    def edges(self, block: int) -> GraphBatch:
        """The edges into a block with their features, on the device; end points count as 0."""
        first, last = self.edge_span(block)
        numbers = None if self.incoming.edge is None else self.incoming.edge[first:last]
        fields = edge_rows(self.store, numbers)
        return GraphBatch(
            ragged=Ragged.from_sizes([1], self.device),
            edge_index=torch.zeros(2, last - first, dtype=torch.int64, device=self.device),
            edge_attr=self._moved(fields.get("edge_attr")),
            edge_pe={name: self._moved(value) for name, value in fields.get("edge_pe", {}).items()},
        )

    def neighborhood(self, block: int) -> Neighborhood:
        """A block with what reaches it; time and memory depend on its edges, not on the size of the graph."""
        first, last = self.bounds[block : block + 2]
        edges = self.edge_span(block)
        size = last - first
        source = self.incoming.source[slice(*edges)].to(torch.int64)
        outside = (source < first) | (source >= last)
        near, position = source[outside].unique(return_inverse=True)
        nodes = torch.cat([torch.arange(first, last), near])
        degree = self.incoming.ptr[nodes + 1] - self.incoming.ptr[nodes]
        target = torch.repeat_interleave(torch.arange(size), degree[:size], output_size=source.numel())
        source -= first
        source[outside] = position + size
        edge_index = torch.stack([source, target])
        batch = GraphBatch(PartOfGraph(nodes.numel(), self.device), edge_index.to(self.device))
        loops = self.incoming.loops[nodes].to(torch.int64)
        return Neighborhood(batch, nodes, edges, degree.to(self.device), loops.to(self.device), size)

    def empty(self, rows: int, like: Tensor) -> HostRows:
        """Room for ``rows`` rows of the type and width of ``like``."""
        return allocate((rows, *like.shape[1:]), like.dtype, self.in_memory)

    def cast(self, dtype: torch.dtype) -> StoredBlocks:
        """Graph with floating features in another type."""
        blocks = copy.copy(self)
        blocks.dtype = dtype
        return blocks

    def edge_span(self, block: int) -> tuple[int, int]:
        """Begin and end of the edges into a block among all of them."""
        first, last = self.bounds[block : block + 2]
        return int(self.incoming.ptr[first]), int(self.incoming.ptr[last])

    def _moved(self, values: Any) -> Any:
        if values is None:
            return None
        moved = values.to(self.device)
        return moved.to(self.dtype) if self.dtype is not None and values.is_floating_point() else moved


def _bounds(ptr: Tensor, max_nodes: int, max_edges: int) -> tuple[int, ...]:
    """First node of every block and the number of nodes.

    Args:
        ptr: (N+1,) first incoming edge of every node, and their number.
        max_nodes: most nodes of a block.
        max_edges: most edges into a block.
    """
    bounds, nodes = [0], ptr.numel() - 1
    while bounds[-1] < nodes:
        first = bounds[-1]
        full = int(torch.searchsorted(ptr, ptr[first] + max_edges, right=True)) - 1
        bounds.append(min(max(full, first + 1), first + max_nodes, nodes))
    return tuple(bounds)
