"""Batches of fixed capacity: tensors of one shape for every batch of a class, the real counts on the device.

A CUDA graph replays kernels with the shapes they were recorded with. So the graphs of a batch are followed by *padding
graphs*, which own whatever the real ones leave of the capacity; padding edges join padding nodes. Layers compute on
padding as on any other graph, and because an output never depends on batch-mates nothing real changes; only what is
taken over all rows of a batch (BatchNorm, losses) has to leave it out, with :meth:`GraphBatch.real`.

Worked example, capacity of 3 + 3 graphs (at most 4 nodes each), 12 nodes; a batch of graphs with 2, 3 nodes::

    ragged.ptr   [0, 2, 5, 5, 9, 12, 12]     two real graphs, an empty one, padding graphs of 4, 3 and no nodes
    real_graphs  2                       a tensor: everything that belongs to a later graph is padding
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

import torch
from torch import Tensor

from graphbench.structures.buckets import Bucket, PaddedLayout
from graphbench.structures.ragged import Ragged
from graphbench.structures.side_stream import read_by_all, tensor_property

Level = Literal["node", "edge", "graph", "pair"]
"""Kind of the rows of a tensor: pairs are the ordered pairs of nodes of a graph, see PairBlocks."""


_DENSEST = 4
"""Rows of the largest graph, times the graphs, relative to all rows, up to which they are padded together."""

NO_GRAPH = -1
"""Graph number of a place of a batch that is left empty."""


class SizesUnknown(RuntimeError):
    """Sizes of graphs were asked for that only the device knows: whoever asks cannot be captured."""


@dataclass(frozen=True)
class Capacity:
    """Shapes of the batches of one class.

    Attributes:
        graphs: B, most real graphs.
        padding_graphs: K graphs behind them that share the padding nodes; the last one is always empty, so that tables
            of tiles can point at it.
        nodes: N, real and padding; at least one is padding.
        edges: E.
        max_size: most nodes of a graph, of a padding graph as well.
        pairs: P >= sum n_g^2 over real and padding graphs; 0 where nothing is stored about pairs.
        edge_sets: pairs of every edge set, by its name.
        taps: T >= the sum of the distinct sizes of its graphs, padding graphs included; 0 where nobody counted.
    """

    graphs: int
    padding_graphs: int
    nodes: int
    edges: int
    max_size: int
    pairs: int = 0
    edge_sets: Mapping[str, int] = field(default_factory=dict, hash=False)
    taps: int = 0

    @property
    def num_graphs(self) -> int:
        """G = B + K."""
        return self.graphs + self.padding_graphs

    def fits(self, counts: BatchCounts) -> bool:
        """Whether a batch of so many graphs, nodes, ... can be padded to this class."""
        padding = self.nodes - counts.nodes
        return (
            counts.graphs <= self.graphs
            and 1 <= padding <= (self.padding_graphs - 1) * self.max_size
            and counts.edges <= self.edges
            and (not self.pairs or counts.pairs + self.padding_pairs(padding) <= self.pairs)
            and counts.taps + self.padding_taps <= self.taps
            and all(counts.edge_sets[name] <= pairs for name, pairs in self.edge_sets.items())
        )

    @property
    def padding_taps(self) -> int:
        """Most taps of the padding graphs, which have two sizes besides 0."""
        return 2 * self.max_size

    def padding_pairs(self, padding: int) -> int:
        """Pairs of so many padding nodes, which fill one padding graph after the other."""
        full, rest = divmod(padding, self.max_size)
        return full * self.max_size**2 + rest**2


@dataclass(frozen=True)
class BatchCounts:
    """Counts of some graphs together; attributes as in :class:`Capacity`."""

    graphs: int
    nodes: int
    edges: int
    pairs: int = 0
    edge_sets: Mapping[str, int] = field(default_factory=dict)
    taps: int = 0


@cache
def _numbers(rows: int, device: torch.device) -> Tensor:
    """0 .. rows - 1: one of the few numbers of rows of a class, asked for in every step.

    Recorded graphs read this memory without asking, so that nothing may be dropped.
    """
    return read_by_all(lambda: torch.arange(rows, device=device))


@dataclass(frozen=True, eq=False)
class RealRows:
    """Rows of a padded tensor that count.

    Attributes:
        mask: (R,) bool, False for padding.
        known: () int64, number of True; None: counted when somebody asks.
    """

    mask: Tensor
    known: Tensor | None = None

    @tensor_property
    def count(self) -> Tensor:
        """() int64, number of rows that count."""
        return self.mask.sum() if self.known is None else self.known

    @classmethod
    def first(cls, count: Tensor, rows: int) -> RealRows:
        """The first ``count`` of so many rows."""
        return cls(_numbers(rows, count.device) < count, count)

    def select(self, x: Tensor, padding: float = 0.0) -> Tensor:
        """(R, ...) with the padding replaced: unlike a product this is no NaN where padding was infinite."""
        return x.masked_fill(~self.mask.view(-1, *(1 for _ in x.shape[1:])), padding)

    def repeated(self, times: int) -> RealRows:
        """Real rows where each row stands ``times`` times, one after the other."""
        return self if times == 1 else RealRows(self.mask.repeat_interleave(times), self.count * times)


class CapacityRagged(Ragged):
    """A partition whose shape is known on the host and whose sizes only on the device.

    On a CPU, where reading a tensor waits for nothing, sizes are read when they are asked for.

    Args:
        ptr: (G+1,) int64; its last entry is N.
        capacity: capacity of the batch.
    """

    def __init__(self, ptr: Tensor, capacity: Capacity) -> None:
        self._ptr = ptr
        self.capacity = capacity

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows per graph.

        Raises:
            SizesUnknown: they lie on another device.
        """
        return self._read_sizes

    @cached_property
    def _read_sizes(self) -> tuple[int, ...]:
        if self.device.type != "cpu":
            raise SizesUnknown("the sizes of the graphs of a padded batch are known on the device only")
        return tuple(self._ptr.diff().tolist())

    @property
    def num_graphs(self) -> int:
        """G, padding graphs included."""
        return self.capacity.num_graphs

    @cached_property
    def num_rows(self) -> int:
        """N, padding included."""
        return self.capacity.nodes

    @cached_property
    def max_size(self) -> int:
        """A bound of the rows of the largest graph, the same for all batches of the class."""
        return self.capacity.max_size

    @tensor_property
    def layout(self) -> PaddedLayout:
        """All graphs in one bucket, padded to the largest size there can be.

        Raises:
            SizesUnknown: that would be many times the rows.
        """
        graphs, length = self.num_graphs, self.max_size
        if graphs * length > _DENSEST * self.num_rows:
            raise SizesUnknown(
                f"graphs of the sizes of a padded batch would be padded {graphs * length / self.num_rows:.0f}-fold"
            )
        column = torch.arange(length, device=self.device)
        mask = column < self.size_tensor.unsqueeze(1)
        # An empty graph has cells without a row: those read the last row, which is padding.
        first = self.ptr[:-1].clamp(max=self.num_rows - 1).unsqueeze(1)
        row_of_cell = (first + column * mask).flatten()
        within = torch.arange(self.num_rows, device=self.device) - self.ptr.index_select(0, self.graph_id)
        bucket = Bucket(tuple(range(graphs)), length, 0, mask)
        return PaddedLayout((bucket,), row_of_cell, self.graph_id * length + within, mask.flatten())

    @tensor_property
    def pair_ptr(self) -> Tensor:
        """(G+1,) int64, first pair of every graph and the total."""
        pairs = self.size_tensor.square().cumsum(0)
        return torch.cat([pairs.new_zeros(1), pairs])

    @tensor_property
    def pair_graph(self) -> Tensor:
        """(P,) int64, the graph of every pair; the last one for those that belong to none."""
        pairs = torch.arange(self.num_pairs, device=self.device)
        return torch.searchsorted(self.pair_ptr[1:], pairs, right=True).clamp_(max=self.num_graphs - 1)

    @tensor_property
    def pair_ends(self) -> tuple[Tensor, Tensor]:
        """(P,) int64 rows i and j of every pair; the last row for those that belong to no graph."""
        size, first = self.size_tensor[self.pair_graph].clamp(min=1), self.ptr[self.pair_graph]
        within = torch.arange(self.num_pairs, device=self.device) - self.pair_ptr[self.pair_graph]
        last = self.num_rows - 1
        row = first + within.div(size, rounding_mode="floor")
        return row.clamp_(max=last), (first + within.remainder(size)).clamp_(max=last)

    def in_pieces(self, rows: int) -> CapacityRagged:
        """The partition whose rows are pieces of at most ``rows`` rows of every graph, as many as there can be.

        Those that are left over belong to the last graph.
        """
        pieces = self.num_rows // rows + self.num_graphs
        last = (self.size_tensor + (rows - 1)).div(rows, rounding_mode="floor").cumsum(0)
        ptr = torch.cat([last.new_zeros(1), last[:-1], last.new_full((1,), pieces)])
        return CapacityRagged(
            ptr, dataclasses.replace(self.capacity, nodes=pieces, max_size=-(-self.max_size // rows), pairs=0, taps=0)
        )

    def with_token(self) -> CapacityRagged:
        """The partition in which every graph has one row more; room for pairs that belong to none stays as it is."""
        capacity, graphs = self.capacity, self.num_graphs
        larger = dataclasses.replace(
            capacity,
            nodes=capacity.nodes + graphs,
            max_size=capacity.max_size + 1,
            pairs=capacity.pairs and capacity.pairs + 2 * capacity.nodes + graphs,
            taps=capacity.taps and capacity.taps + capacity.max_size + 3,  # one for every distinct size
        )
        return CapacityRagged(self.ptr + torch.arange(graphs + 1, device=self.device), larger)

    @property
    def num_pairs(self) -> int:
        """P, room for pairs; those behind ``pair_ptr[-1]`` belong to no graph."""
        return self.capacity.pairs

    def to(self, device: torch.device | str, non_blocking: bool = False) -> CapacityRagged:
        """Partition on another device."""
        return CapacityRagged(self._ptr.to(device, non_blocking=non_blocking), self.capacity)

    def pin_memory(self) -> CapacityRagged:
        """Partition in page-locked memory."""
        return CapacityRagged(self._ptr.pin_memory(), self.capacity)
