"""Pairs of nodes and their distances: dense blocks for small graphs, neighbour lists for large ones.

Distances are stored, masks are derived: decay masks, focal masks and hop biases all read the same uint8 numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graphbench.structures.memo import Memo
from graphbench.structures.ragged import Ragged

UNREACHABLE = 255
"""Distance stored for a pair without a path (or beyond the cut-off of the transform that made it)."""

TOKEN = 254
"""Distance stored for a pair of which one node is the graph token; the token is 0 from itself. See
:mod:`graphbench.encoders.token`."""

LONGEST = TOKEN - 1
"""Largest number of hops that can be stored."""


@dataclass(frozen=True, eq=False)
class PairBlocks(Memo):
    """One n x n block of shortest-path distances per graph, one after the other in a flat tensor.

    Worked example: graphs of 2 and 3 nodes hold 4 + 9 = 13 distances; ``pair_ptr = [0, 4, 13]``; the distance from
    node i to node j of graph 1 is ``distance[4 + 3 * i + j]``.

    Attributes:
        distance: (sum n_g^2,) uint8, row-major per graph, hops; 255 = unreachable, 254 = to or from the graph token.
        sizes: nodes per graph, on the host.
    """

    distance: Tensor
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuses a tensor that does not hold exactly one block per graph."""
        expected = sum(size * size for size in self.sizes)
        if self.distance.dtype != torch.uint8 or self.distance.shape != (expected,):
            raise ValueError(
                f"distance must be uint8 of shape ({expected},) for sizes {self.sizes[:8]}, "
                f"received {self.distance.dtype} of shape {tuple(self.distance.shape)}"
            )

    def belong_to(self, ragged: Ragged) -> bool:
        """Whether the blocks are those of graphs of these sizes."""
        return self.sizes == ragged.sizes

    def replaced(self, distance: Tensor, ragged: Ragged) -> PairBlocks:
        """Other distances, of graphs of other sizes."""
        return PairBlocks(distance, ragged.sizes)

    @cached_property
    def pair_ptr(self) -> Tensor:
        """(G+1,) int64, first pair of every graph and the total."""
        return torch.tensor(self._first, dtype=torch.int64).to(self.distance.device, non_blocking=True)

    @cached_property
    def _first(self) -> tuple[int, ...]:
        first = [0]
        for size in self.sizes:
            first.append(first[-1] + size * size)
        return tuple(first)

    def block(self, graph: int) -> Tensor:
        """(n, n) uint8 distances of one graph (a view)."""
        size = self.sizes[graph]
        return self.distance[self._first[graph] : self._first[graph + 1]].view(size, size)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> PairBlocks:
        """Distances on another device."""
        return PairBlocks(self.distance.to(device, non_blocking=non_blocking), self.sizes)

    def pin_memory(self) -> PairBlocks:
        """Distances in page-locked memory."""
        return PairBlocks(self.distance.pin_memory(), self.sizes)


@dataclass(frozen=True, eq=False)
class HopNeighbors(Memo):
    """All nodes within a cut-off of every node, as CSR lists: for graphs too large for n x n blocks.

    Worked example: path 0-1-2 with cut-off 1: ``row_ptr = [0, 2, 5, 7]``, ``col = [0, 1, 0, 1, 2, 1, 2]``,
    ``hop = [0, 1, 1, 0, 1, 1, 0]``. Every node lists itself at hop 0.

    Attributes:
        row_ptr: (N+1,) int64.
        col: (P,) int64, node numbers counted through the batch.
        hop: (P,) uint8, distance of the pair; 254 = to or from the graph token.
    """

    row_ptr: Tensor
    col: Tensor
    hop: Tensor

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.row_ptr.numel() - 1

    def to(self, device: torch.device | str, non_blocking: bool = False) -> HopNeighbors:
        """Neighbour lists on another device."""
        return HopNeighbors(*(x.to(device, non_blocking=non_blocking) for x in (self.row_ptr, self.col, self.hop)))

    def pin_memory(self) -> HopNeighbors:
        """Neighbour lists in page-locked memory."""
        return HopNeighbors(self.row_ptr.pin_memory(), self.col.pin_memory(), self.hop.pin_memory())
