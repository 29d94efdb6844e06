"""Nodes by their distance from a node: shells of 0, 1, 2, .. hops, as pairs and as one sparse matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency, adjacency


def known_distances(batch: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs (j, i) of nodes of a graph, and the hops between them: three tensors (P,) int64, 255 for no path.

    Raises:
        ValueError: the batch has no distances.
    """
    if batch.hops is not None:
        counts = batch.hops.row_ptr.diff()
        nodes = torch.arange(batch.num_nodes, device=batch.device)
        target = torch.repeat_interleave(nodes, counts, output_size=len(batch.hops.col))
        source, hop = batch.hops.col, batch.hops.hop
    elif batch.pairs is not None:
        (target, source), hop = batch.ragged.pair_ends, batch.pairs.distance
    else:
        raise ValueError(
            "neighbour lists (batch.hops) or distances (batch.pairs) are needed, which a transform computes "
            "(HopNeighbors, ShortestPaths)"
        )
    return source, target, hop.long()


def shells(batch: GraphBatch, hops: int, normalised: bool = False) -> Adjacency:
    """The matrix that sums over every shell of every node at once; ask for it by ``batch.derived(shells, hops)``.

    Its node i * (hops + 2) + k stands for node i as seen from k hops away, and receives from the nodes (j, k) of all j
    that are k hops away from i, k = 0 .. hops. What is further away is in the last shell, hops + 1.

    Args:
        batch: with distances.
        hops: the last shell that counts.
        normalised: D_k^-1/2 (A_k + I) D_k^-1/2 for every shell by itself, as a graph convolution has it; False: A_k.
    """
    source, target, hop = known_distances(batch)
    number = hop.clamp(max=hops + 1)
    ends = torch.stack([source, target]) * (hops + 2) + number
    nodes = batch.num_nodes * (hops + 2)
    return adjacency(ends, nodes, norm="sym" if normalised else "none", self_loops=normalised)
