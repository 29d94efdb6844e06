"""Index algebra of all pairs of nodes of the graphs of a batch, for attention with a state per pair."""

from __future__ import annotations

import torch

from graphbench.structures import Capacity, GraphBatch, Ragged
from graphbench.structures.adjacency import Adjacency, Csr
from graphbench.structures.capacity import CapacityRagged


class AllPairs:
    """All pairs (i, j) of every graph, row-major per graph, as :class:`~graphbench.structures.PairBlocks` has them.

    Attributes:
        query: (P,) i.
        key: (P,) j.
        of_query: partition of the pairs by i.
        of_node: (N,) the pair (i, i).
        of_edge: (E,) the pair (t, s) of every edge s -> t.
        adjacency: the pairs as edges j -> i, for operators whose gradients are added without atomics.
    """

    def __init__(self, batch: GraphBatch) -> None:
        ragged = batch.ragged
        self.of_query = _by_query(ragged)
        self.query = self.of_query.graph_id
        number = torch.arange(self.of_query.num_rows, device=batch.device)
        first = ragged.ptr.index_select(0, ragged.graph_id)
        first_of_pair = first.index_select(0, self.query)
        place = number - self.of_query.ptr.index_select(0, self.query)
        self.key = first_of_pair + place
        mirrored = (
            self.of_query.ptr.index_select(0, self.key.clamp(max=ragged.num_rows - 1)) + self.query - first_of_pair
        )
        if isinstance(ragged, CapacityRagged):
            # There may be pairs of no node. They belong to the last one.
            none = place >= ragged.size_tensor.index_select(0, ragged.graph_id).index_select(0, self.query)
            self.key.masked_fill_(none, ragged.num_rows - 1)
            mirrored = torch.where(none, number, mirrored)
        self.of_node = self.of_query.ptr[:-1] + torch.arange(ragged.num_rows, device=batch.device) - first
        source, target = batch.edge_index
        self.of_edge = self.of_query.ptr.index_select(0, target) + source - first.index_select(0, source)
        by_query, by_key = (Csr(self.of_query.ptr, entry, self.key) for entry in (number, mirrored))
        self.adjacency = Adjacency(ragged.num_rows, self.key, self.query, by_query, by_key, None)


def all_pairs(batch: GraphBatch) -> AllPairs:
    """The pairs of a batch; ask for them by ``batch.derived(all_pairs)``, which keeps them."""
    return AllPairs(batch)


def _by_query(ragged: Ragged) -> Ragged:
    """Partition of the pairs by their first node."""
    if not isinstance(ragged, CapacityRagged):
        return Ragged.from_sizes([size for size in ragged.sizes for _ in range(size)], ragged.device)
    size = ragged.size_tensor.index_select(0, ragged.graph_id)
    ptr = torch.cat([size.new_zeros(1), size[:-1].cumsum(0), size.new_full((1,), ragged.num_pairs)])
    rows = ragged.num_rows
    return CapacityRagged(ptr, Capacity(rows, 0, nodes=ragged.num_pairs, edges=0, max_size=ragged.max_size))
