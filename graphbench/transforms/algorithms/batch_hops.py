"""Hop distances of the graphs of a batch, computed per batch instead of once for the data set.

On the CPU by the bit search of the transform; on other devices by frontier expansion: the nodes first reached by a path
of h edges are the neighbours of those first reached by h - 1, one product with the adjacency matrix for all
graphs of similar size. Notation: B graphs of a bucket, L nodes of the largest, P pairs of the batch.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.structures import Bucket, GraphBatch, PairBlocks
from graphbench.structures.pairs import LONGEST, UNREACHABLE
from graphbench.transforms.algorithms.bit_search import all_hops

# Rounds between two checks whether anything new was reached, for which the host waits for the device.
_ROUNDS = 8


def with_hops(batch: GraphBatch, cutoff: int = LONGEST) -> GraphBatch:
    """The batch with the distances that the transform ShortestPaths would store.

    Args:
        batch: edges grouped by graph.
        cutoff: pairs further apart count as unreachable.

    Raises:
        ValueError: it has distances already.
    """
    if batch.pairs is not None:
        raise ValueError("another transform has stored distances of these pairs: set dataset.distances to stored")
    distance = _searched(batch, cutoff) if batch.device.type == "cpu" else _expanded(batch, cutoff)
    return batch.replace(pairs=PairBlocks(distance, batch.ragged.sizes))


def _searched(batch: GraphBatch, cutoff: int) -> Tensor:
    graph = batch.ragged.graph_id[batch.edge_index[0]]
    counts = torch.bincount(graph, minlength=batch.num_graphs)
    edges = batch.edge_index - batch.ragged.ptr[graph]
    store = GraphStore.from_arrays(np.asarray(batch.ragged.sizes, dtype=np.int64), counts, edges)
    return torch.from_numpy(all_hops(store, cutoff))


def _expanded(batch: GraphBatch, cutoff: int) -> Tensor:
    """(P,) uint8; also right, but slow, on a CPU."""
    sizes, device = torch.tensor(batch.ragged.sizes, dtype=torch.int64), batch.device
    first = torch.cat([sizes.new_zeros(1), sizes.square().cumsum(0)])
    pairs = int(first[-1])
    source, target = batch.edge_index
    graph = batch.ragged.graph_id[source]
    start, size = batch.ragged.ptr[graph], sizes.to(device, non_blocking=True)[graph]
    cell = first.to(device, non_blocking=True)[graph] + (source - start) * size + target - start
    # One more cell takes what padding reads and writes.
    linked = torch.zeros(pairs + 1, dtype=torch.bool, device=device)
    linked.index_fill_(0, cell, True)
    distance = torch.full((pairs + 1,), UNREACHABLE, dtype=torch.uint8, device=device)
    for bucket in batch.ragged.buckets:
        graphs = torch.tensor(bucket.graphs)
        n, offset = (values[graphs].view(-1, 1, 1).to(device, non_blocking=True) for values in (sizes, first))
        distance_BLL, cells_BLL = _of_bucket(bucket, n, offset, linked, cutoff)
        distance.index_copy_(0, cells_BLL.view(-1), distance_BLL.view(-1))
    return distance[:-1]


def _of_bucket(bucket: Bucket, n: Tensor, offset: Tensor, linked: Tensor, cutoff: int) -> tuple[Tensor, Tensor]:
    """(B, L, L) hops, and the cells they belong to."""
    position = torch.arange(bucket.length, device=linked.device)
    row, col = position[:, None], position
    cells = torch.where((row < n) & (col < n), offset + row * n + col, len(linked) - 1)
    # Sums of up to L ones: the smallest floats that the device multiplies fast tell them from 0.
    dtype = torch.float16 if linked.device.type == "cuda" else torch.float32
    edges = linked[cells].to(dtype)
    new = torch.eye(bucket.length, dtype=torch.bool, device=linked.device).expand_as(cells)
    distance = torch.where(new, 0, UNREACHABLE).to(torch.uint8)
    for hops in range(1, min(cutoff, bucket.length - 1) + 1):
        new = (torch.bmm(new.to(dtype), edges) > 0) & (distance == UNREACHABLE)
        distance.masked_fill_(new, hops)
        if hops % _ROUNDS == 0 and not bool(new.any()):
            break
    return distance, cells
