"""A block of nodes with what reaches it, as the batch that a layer sees; see :mod:`graphbench.blockwise.forward`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import torch

from graphbench.blockwise.part import WholeGraphNeeded
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency, Csr, normalised
from graphbench.structures.node_blocks import Neighborhood


@dataclass(frozen=True, eq=False)
class NeighborhoodBatch(GraphBatch):
    """A neighbourhood whose adjacency is cut out of that of the whole graph.

    An outer node lacks its own incoming edges here, so that a symmetric normalisation must not count them. Nor is
    anything sorted: edges come sorted by target, and lists by source are for gradients only.
    """

    neighborhood: Neighborhood | None = None

    @classmethod
    def of(cls, neighborhood: Neighborhood) -> NeighborhoodBatch:
        """The batch that a layer reads for a block."""
        return cls(neighborhood.batch.ragged, neighborhood.batch.edge_index, neighborhood=neighborhood)

    def adjacency(self, *, norm: Literal["sym", "row", "none"] = "none", self_loops: bool = False) -> Adjacency:
        """The rows of the block in the adjacency of the whole graph."""
        return self.derived(_block_adjacency, norm, self_loops)

    def two_hop_adjacency(self, **arguments: Any) -> NoReturn:
        """Refused: the edges into outer nodes are not at hand.

        Raises:
            WholeGraphNeeded: always.
        """
        raise WholeGraphNeeded("only the edges into a block are at hand, which begin one step away")


def _block_adjacency(batch: NeighborhoodBatch, norm: str, self_loops: bool) -> Adjacency:
    """Adjacency of the whole graph (:func:`graphbench.structures.adjacency`) for the rows of the block."""
    neighborhood = batch.neighborhood
    assert neighborhood is not None
    source, target = batch.edge_index
    nodes, size = batch.num_nodes, neighborhood.size
    block = torch.arange(size, device=source.device)
    degree, weight = neighborhood.in_degree, None
    ptr = torch.zeros(nodes + 1, dtype=torch.int64, device=source.device)
    ptr[1 : size + 1] = degree[:size] + int(self_loops)
    ptr = ptr.cumsum(0)
    entry = torch.arange(source.numel(), device=source.device)
    if self_loops:
        weight = torch.cat([(source != target).double(), block.new_ones(size, dtype=torch.float64)])
        position = torch.cat([entry + target, ptr[1 : size + 1] - 1])
        source, target = torch.cat([source, block]), torch.cat([target, block])
        entry = torch.empty_like(position).index_copy_(0, position, torch.arange(position.numel(), device=ptr.device))
        degree = degree - neighborhood.loops + 1
    if norm != "none":
        if weight is None:
            weight = torch.ones(source.shape, dtype=torch.float64, device=source.device)
        weight = normalised(weight, source, target, degree.double(), norm)
    nothing = entry.new_empty(0)
    outgoing = Csr(nothing, nothing, nothing)
    return Adjacency(nodes, source, target, Csr(ptr, entry, source[entry]), outgoing, weight)
