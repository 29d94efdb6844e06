"""Graphs of equal size as stacks of dense matrices, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.errors import UserError

MAX_NODES = 16_384
"""Largest graph that is treated as a dense matrix: 2 GiB of float64 per copy, and hours for its eigenvectors."""

_CELLS = 1 << 24  # 128 MiB of float64 per stack


def adjacency_stacks(store: GraphStore, symmetrize: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """All non-empty graphs, grouped by size.

    Args:
        store: the graphs.
        symmetrize: a graph with a one-way edge gets the reverse of all its edges, repeated edges counted once;
            graphs that are symmetric already keep the multiplicity of their edges.

    Yields:
        ``rows`` (B, n) int64, the nodes of B graphs of n nodes; ``adjacency`` (B, n, n) float64, entry (i, j) the
        number of edges from i to j.

    Raises:
        UserError: a graph is too large for a dense matrix.
    """
    if store.max_nodes() > MAX_NODES:
        raise UserError(
            f"this encoding needs a dense matrix per graph; the largest graph has {store.max_nodes():,} nodes, allowed "
            f"are {MAX_NODES:,}. Leave the encoding out (posenc_*.enable: False, and out of node_encoder_name)."
        )
    for size in store.sizes.unique().tolist():
        members = (store.sizes == size).nonzero().view(-1)
        if size == 0:
            continue
        for graphs in members.split(max(1, _CELLS // (size * size))):
            yield _rows(store, graphs, size), _adjacency(store, graphs, size, symmetrize)


def edge_cells(store: GraphStore, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Where the edges of a stack lie in it.

    Args:
        store: the graphs.
        rows: (B, n), the nodes of the stack, from :func:`adjacency_stacks`.

    Returns:
        ``edges`` (M,) int64, the edges of these graphs in the store; ``cells`` (M,) int64, their entries in the flat
        stack of B * n * n entries.
    """
    size = rows.shape[1]
    # Graphs without nodes share their first node with the next one: the last graph that begins there is meant.
    graphs = torch.searchsorted(store.node_ptr, rows[:, 0].contiguous(), right=True) - 1
    counts = store.edge_counts[graphs]
    place = torch.repeat_interleave(torch.arange(len(graphs)), counts)
    first = torch.repeat_interleave(store.edge_ptr[graphs] - (counts.cumsum(0) - counts), counts)
    edges = first + torch.arange(len(place))
    source, target = store.edge_index[:, edges].to(torch.int64)
    return edges, (place * size + source) * size + target


def _rows(store: GraphStore, graphs: Tensor, size: int) -> Tensor:
    return store.node_ptr[graphs].unsqueeze(1) + torch.arange(size)


def _adjacency(store: GraphStore, graphs: Tensor, size: int, symmetrize: bool) -> Tensor:
    # Equal sizes: node i of graph b of the batch has number b * size + i.
    source, target = store.gather(graphs).edge_index
    cell = source * size + target % size
    flat = torch.zeros(len(graphs) * size * size, dtype=torch.float64)
    flat.index_add_(0, cell, torch.ones(len(cell), dtype=torch.float64))
    adjacency = flat.view(len(graphs), size, size)
    if not symmetrize:
        return adjacency
    directed = (adjacency != adjacency.mT).flatten(1).any(1)
    if bool(directed.any()):
        one_way = adjacency[directed]
        adjacency[directed] = ((one_way + one_way.mT) > 0).to(torch.float64)
    return adjacency
