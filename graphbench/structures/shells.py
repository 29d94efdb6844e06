"""Nodes by their distance from a node: shells of 0, 1, 2, .. hops, as pairs and as sparse matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency, Csr, adjacency


def known_distances(batch: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs (j, i) of nodes of a graph, and the hops from j to i: three tensors (P,) int64, 255 for no path.

    Raises:
        ValueError: the batch has no distances.
    """
    if batch.hops is not None:
        counts = batch.hops.row_ptr.diff()
        nodes = torch.arange(batch.num_nodes, device=batch.device)
        source = torch.repeat_interleave(nodes, counts, output_size=len(batch.hops.col))
        target, hop = batch.hops.col, batch.hops.hop
    elif batch.pairs is not None:
        (source, target), hop = batch.ragged.pair_ends, batch.pairs.distance
    else:
        raise ValueError(
            "neighbour lists (batch.hops) or distances (batch.pairs) are needed, which a transform computes "
            "(HopNeighbors, ShortestPaths)"
        )
    return source, target, hop.long()


def shells(batch: GraphBatch, hops: int, normalised: bool = False) -> tuple[Adjacency, ...]:
    """Matrices that sum over the nearest shells of every node at once; ask by ``batch.derived(shells, hops)``.

    Node k * N + i of the matrices stands for node i as seen from the k-th shell, and receives from the nodes (k, j)
    of all j from which k edges lead to i, as messages go. The first matrix has one shell, every further one a shell
    more, so that whoever reads few shells pays for their pairs only. They share their memory. On a GPU the host
    waits once, for the pairs per shell.

    Args:
        batch: batch with distances.
        hops: the last shell.
        normalised: shells of 1, 2, .. hops, each D_k^-1/2 (A_k + I) D_k^-1/2 by itself, as a graph convolution has it;
            False: A_k, beginning with the node itself (0 hops).
    """
    source, target, hop = known_distances(batch)
    nodes, nearest = batch.num_nodes, int(normalised)
    number = hops + 1 - nearest
    # pairs of no shell that is asked for come last
    shell = torch.where((hop < nearest) | (hop > hops), number, hop - nearest)
    if normalised:
        seen = torch.arange(number * nodes, device=batch.device)
        loops = seen % max(nodes, 1)
        source, target = torch.cat([source, loops]), torch.cat([target, loops])
        shell = torch.cat([shell, seen.div(max(nodes, 1), rounding_mode="floor")])
    key, order = (shell * nodes + target).sort(stable=True)
    bounds = nodes * torch.arange(1, number + 1, device=batch.device)
    edges: list[int] = torch.searchsorted(key, bounds).tolist()
    order = order[: edges[-1]]
    ends = torch.stack([shell[order] * nodes + source[order], key[: edges[-1]]])
    whole = adjacency(ends, number * nodes, norm="sym" if normalised else "none")
    return tuple(_first(whole, (count + 1) * nodes, edges[count]) for count in range(number))


def _first(whole: Adjacency, nodes: int, edges: int) -> Adjacency:
    """The first nodes of a matrix whose edges are sorted by target and join none of them to a later node."""
    by_target, by_source = (
        Csr(lists.ptr[: nodes + 1], lists.entry[:edges], lists.other[:edges])
        for lists in (whole.by_target, whole.by_source)
    )
    weight = None if whole.weight is None else whole.weight[:edges]
    return Adjacency(nodes, whole.source[:edges], whole.target[:edges], by_target, by_source, weight)
