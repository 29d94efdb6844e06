"""The only graph of a store in blocks of nodes, for evaluation in bounded memory; interface in ``structures``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graphbench.blockwise.graph import HostRows, Neighborhood, NodeRows, RowsOfGraph
from graphbench.data.large.arrays import allocate
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.subgraph import edge_rows, has_edge_rows, node_rows
from graphbench.data.store import GraphStore
from graphbench.structures import Features, GraphBatch, Ragged

CPU = torch.device("cpu")

NODES, EDGES = 2**14, 2**18
"""Largest block. Small enough that the allocator gives memory of the block before again: larger ones are slower."""


@dataclass(frozen=True, eq=False)
class StoredBlocks:
    """Implements :class:`~graphbench.blockwise.graph.NodeBlocks`.

    Attributes:
        store: one graph, see :func:`~graphbench.data.large.subgraph.check_one_graph`.
        incoming: its edges sorted by target, numbered where something is stored for every edge.
        device: where blocks are computed.
        max_nodes: of a block.
        max_edges: into a block; a single node may have more.
        in_memory: bytes up to which states are kept in memory, see :func:`~graphbench.data.large.arrays.room`.
        dtype: of floating features, None: as stored, at least the default type.
    """

    store: GraphStore
    incoming: IncomingEdges
    device: torch.device = CPU
    max_nodes: int = NODES
    max_edges: int = EDGES
    in_memory: int | None = None
    dtype: torch.dtype | None = None

    @classmethod
    def of(cls, store: GraphStore, **options: object) -> StoredBlocks:
        """Sorts the edges of a store; options as the attributes."""
        sorted_edges = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=has_edge_rows(store))
        return cls(store, sorted_edges, **options)  # type: ignore[arg-type]

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """First node of every block and the number of nodes."""
        ptr, bounds = self.incoming.ptr, [0]
        while bounds[-1] < self.store.num_nodes:
            first = bounds[-1]
            full = int(torch.searchsorted(ptr, ptr[first] + self.max_edges, right=True)) - 1
            bounds.append(min(max(full, first + 1), first + self.max_nodes, self.store.num_nodes))
        return tuple(bounds)

    @property
    def num_edges(self) -> int:
        """E, directed."""
        return self.store.num_edges

    @property
    def y(self) -> Tensor | None:
        """Targets of all nodes."""
        return self.store.y

    def nodes(self, block: int) -> NodeRows:
        """The nodes of a block with features and encodings, on the device."""
        first, last = self.bounds[block : block + 2]
        fields = node_rows(self.store, slice(first, last))
        return NodeRows.of(
            last - first,
            self.device,
            x=self._moved(fields["x"]),
            pe={name: self._moved(value) for name, value in fields["pe"].items()},
        )

    def edges(self, block: int) -> GraphBatch:
        """The edges into a block with their features, on the device; end points count as 0."""
        first, last = self._edges(block)
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
        edges = self._edges(block)
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
        batch = GraphBatch(RowsOfGraph(nodes.numel(), self.device), edge_index.to(self.device))
        loops = self.incoming.loops[nodes].to(torch.int64)
        return Neighborhood(batch, nodes, edges, degree.to(self.device), loops.to(self.device), size)

    def empty(self, rows: int, like: Tensor) -> HostRows:
        """Room for ``rows`` rows of the type and width of ``like``."""
        return allocate((rows, *like.shape[1:]), like.dtype, self.in_memory)

    def cast(self, dtype: torch.dtype) -> StoredBlocks:
        """The same graph with floating features in another type."""
        return dataclasses.replace(self, dtype=dtype)

    def _edges(self, block: int) -> tuple[int, int]:
        first, last = self.bounds[block : block + 2]
        return int(self.incoming.ptr[first]), int(self.incoming.ptr[last])

    def _moved(self, values: Features | None) -> Features | None:
        if values is None:
            return None
        moved = values.to(self.device)
        return moved.to(self.dtype) if self.dtype is not None and values.is_floating_point() else moved
