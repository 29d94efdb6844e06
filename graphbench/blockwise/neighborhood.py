"""A block of nodes with what reaches it, as the batch that a layer sees; see :mod:`graphbench.blockwise.forward`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from graphbench.blockwise.graph import Neighborhood, WholeGraphNeeded
from graphbench.ops.propagate import Adjacency
from graphbench.ops.propagate.adjacency import Csr, normalised
from graphbench.structures import GraphBatch


@dataclass(frozen=True, eq=False)
class NeighborhoodBatch(GraphBatch):
    """A neighbourhood whose adjacency is cut out of that of the whole graph.

    An outer node lacks its own incoming edges here, so that a symmetric normalisation must not count them. Nor is
    anything sorted: edges come sorted by target, and lists by source are for gradients only.
    """

    near: Neighborhood | None = None

    @classmethod
    def of(cls, near: Neighborhood) -> NeighborhoodBatch:
        """What a layer sees of a block."""
        return cls(near.batch.ragged, near.batch.edge_index, near=near)

    def derived(self, name: str, compute: Callable[[GraphBatch], Any]) -> Any:
        """As for any batch, but adjacencies are those of the whole graph.

        Raises:
            WholeGraphNeeded: pairs two edges apart are asked for; the edges into outer nodes are not at hand.
        """
        room, *arguments = name.split("/")
        if room == "two_hops":
            raise WholeGraphNeeded("only the edges into a block are at hand, which begin one step away")
        if room == "propagate" and self.near is not None:
            norm, loops = arguments
            return super().derived(name, lambda _: _adjacency(self.near, norm, loops == "self_loops"))
        return super().derived(name, compute)


def _adjacency(near: Neighborhood, norm: str, self_loops: bool) -> Adjacency:
    """As :func:`graphbench.ops.propagate.adjacency` of the whole graph, for the rows of the block."""
    source, target = near.batch.edge_index
    nodes, block = near.batch.num_nodes, torch.arange(near.size, device=source.device)
    degree, weight = near.in_degree, None
    ptr = torch.zeros(nodes + 1, dtype=torch.int64, device=source.device)
    ptr[1 : near.size + 1] = degree[: near.size] + int(self_loops)
    ptr = ptr.cumsum(0)
    entry = torch.arange(source.numel(), device=source.device)
    if self_loops:
        weight = torch.cat([(source != target).double(), block.new_ones(near.size, dtype=torch.float64)])
        position = torch.cat([entry + target, ptr[1 : near.size + 1] - 1])
        source, target = torch.cat([source, block]), torch.cat([target, block])
        entry = torch.empty_like(position).index_copy_(0, position, torch.arange(position.numel(), device=ptr.device))
        degree = degree - near.loops + 1
    if norm != "none":
        if weight is None:
            weight = torch.ones(source.shape, dtype=torch.float64, device=source.device)
        weight = normalised(weight, source, target, degree.double(), norm)
    nothing = Csr(*(entry.new_empty(0) for _ in range(3)))
    return Adjacency(nodes, source, target, Csr(ptr, entry, source[entry]), nothing, weight)
