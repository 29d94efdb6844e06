"""Example graphs for the checks: random batches, one graph of a batch alone, other numberings of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphbench.structures import EdgeSet, GraphBatch, HopNeighbors, PairBlocks, Ragged, as_dense

SIZES = (7, 1, 12, 2, 5)
Example: TypeAlias = Callable[..., GraphBatch]
"""Maker of graphs, called with ``sizes`` and ``edges`` as :func:`example_batch`."""


def example_batch(
    sizes: Iterable[int] = SIZES,
    *,
    node_dim: int = 12,
    edge_dim: int = 12,
    node_types: tuple[int, ...] | None = None,
    edge_types: tuple[int, ...] | None = None,
    pe: Mapping[str, tuple[int, ...]] | None = None,
    edges: bool = True,
    connected: bool = False,
    pairs: bool = True,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> GraphBatch:
    """Random graphs with both directions of every edge, shuffled inside a graph.

    From 3 nodes on the last node is isolated, from 10 nodes on a graph falls into two components, unless ``connected``.

    Args:
        sizes: nodes per graph; 0 and an empty sequence are legal.
        node_dim: columns of floating ``x`` (0: no ``x``).
        edge_dim: columns of floating ``edge_attr`` (0: none).
        node_types: categories per column of an int64 ``x`` instead.
        edge_types: categories per column of an int64 ``edge_attr`` instead.
        pe: trailing shapes of node-wise encodings by name, filled with random numbers.
        edges: False leaves every graph without edges.
        connected: every graph is in one piece.
        pairs: attach shortest-path distances.
        dtype: of floating fields.
        seed: of everything random.
    """
    sizes, random = tuple(sizes), np.random.default_rng(seed)
    parts = [_edges(n, random, connected) if edges else np.empty((2, 0), dtype=np.int64) for n in sizes]
    starts = np.cumsum((0, *sizes))
    edge_index = np.concatenate([np.empty((2, 0), np.int64), *(p + s for p, s in zip(parts, starts))], axis=1)
    nodes, count = sum(sizes), edge_index.shape[1]

    def columns(rows: int, width: int, types: tuple[int, ...] | None) -> Tensor | None:
        if types is not None:
            return torch.from_numpy(np.stack([random.integers(n, size=rows) for n in types], axis=1))
        return torch.from_numpy(random.standard_normal((rows, width))).to(dtype) if width else None

    distance = [_distances(n, part) for n, part in zip(sizes, parts)] if pairs else []
    return GraphBatch(
        ragged=Ragged.from_sizes(sizes),
        edge_index=torch.from_numpy(edge_index),
        x=columns(nodes, node_dim, node_types),
        edge_attr=columns(count, edge_dim, edge_types),
        pe={
            name: torch.from_numpy(random.standard_normal((nodes, *shape))).to(dtype)
            for name, shape in (pe or {}).items()
        },
        pairs=PairBlocks(torch.from_numpy(np.concatenate([np.empty(0, np.uint8), *distance])), sizes)
        if pairs
        else None,
    )


def alone(batch: GraphBatch, graph: int) -> GraphBatch:
    """One graph of a batch as a batch of its own."""
    first, last = int(batch.ragged.ptr[graph]), int(batch.ragged.ptr[graph + 1])
    rows, edges, nodes = slice(first, last), edges_of(batch, graph), torch.arange(first, last)

    def take(value: Any, index: slice | Tensor) -> Any:
        return None if value is None else value[index]

    return GraphBatch(
        ragged=Ragged.from_sizes([last - first]),
        edge_index=batch.edge_index[:, edges] - first,
        x=take(batch.x, rows),
        edge_attr=take(batch.edge_attr, edges),
        pe={name: value[rows] for name, value in batch.pe.items()},
        edge_pe={name: value[edges] for name, value in batch.edge_pe.items()},
        pair_pe={name: value[_pairs_of(batch, graph)] for name, value in batch.pair_pe.items()},
        edge_sets={name: _set_of(each, graph, first) for name, each in batch.edge_sets.items()},
        pairs=None if batch.pairs is None else PairBlocks(batch.pairs.block(graph).reshape(-1), (last - first,)),
        hops=None if batch.hops is None else _hops_of(batch.hops, nodes, torch.arange(batch.num_nodes) - first),
    )


def _hops_of(hops: HopNeighbors, nodes: Tensor, number: Tensor) -> HopNeighbors:
    """Lists of some nodes, sorted by the nodes that they list.

    Args:
        hops: the lists.
        nodes: of these nodes, in this order.
        number: (N,) new number of every node.
    """
    counts = hops.row_ptr.diff()[nodes]
    row_ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    row = torch.arange(len(nodes)).repeat_interleave(counts)
    entries = torch.arange(len(row)) + (hops.row_ptr[nodes] - row_ptr[:-1])[row]
    col = number[hops.col[entries]]
    order = (row * (len(number) + 1) + col).argsort()
    return HopNeighbors(row_ptr, col[order], hops.hop[entries][order])


def _pairs_of(batch: GraphBatch, graph: int) -> slice:
    squares = np.cumsum([0, *(size * size for size in batch.ragged.sizes)])
    return slice(int(squares[graph]), int(squares[graph + 1]))


def _set_of(edges: EdgeSet, graph: int, first: int) -> EdgeSet:
    a, b = int(edges.ptr[graph]), int(edges.ptr[graph + 1])
    attr = None if edges.attr is None else edges.attr[a:b]
    return EdgeSet(edges.index[:, a:b] - first, torch.tensor([0, b - a]), attr)


def edges_of(batch: GraphBatch, graph: int) -> Tensor:
    """(E,) bool, edges of one graph."""
    return batch.ragged.graph_id[batch.edge_index[0]] == graph


def permutations(batch: GraphBatch) -> tuple[Tensor, Tensor]:
    """A random order of the nodes inside every graph, and of the edges inside every graph."""
    random = np.random.default_rng(1)
    edge_graph = batch.ragged.graph_id[batch.edge_index[0]].numpy()
    node = np.lexsort((random.random(batch.num_nodes), batch.ragged.graph_id.numpy()))
    edge = np.lexsort((random.random(batch.num_edges), edge_graph))
    return torch.from_numpy(node), torch.from_numpy(edge)


def permuted(batch: GraphBatch, perm: Tensor, edge_perm: Tensor | None = None) -> GraphBatch:
    """The same graphs with other node numbers.

    Args:
        batch: the batch.
        perm: (N,) new row i is old row ``perm[i]``; stays inside graphs.
        edge_perm: (E,) the same for edges; None keeps their order.
    """
    edge_perm = torch.arange(batch.num_edges) if edge_perm is None else edge_perm
    new_number = torch.empty_like(perm)
    new_number[perm] = torch.arange(len(perm))
    pairs = pair_order(batch, perm)
    return GraphBatch(
        ragged=batch.ragged,
        edge_index=new_number[batch.edge_index[:, edge_perm]],
        x=None if batch.x is None else as_dense(batch.x)[perm],
        edge_attr=None if batch.edge_attr is None else batch.edge_attr[edge_perm],
        pe={name: value[perm] for name, value in batch.pe.items()},
        edge_pe={name: value[edge_perm] for name, value in batch.edge_pe.items()},
        pair_pe={name: value[pairs] for name, value in batch.pair_pe.items()},
        edge_sets={
            name: EdgeSet(new_number[each.index], each.ptr, each.attr) for name, each in batch.edge_sets.items()
        },
        pairs=None if batch.pairs is None else PairBlocks(batch.pairs.distance[pairs], batch.ragged.sizes),
        hops=None if batch.hops is None else _hops_of(batch.hops, perm, new_number),
    )


def pair_order(batch: GraphBatch, perm: Tensor) -> Tensor:
    """(sum of n_g^2,) the order of all pairs of nodes that an order of nodes gives, see :func:`permuted`."""
    orders = [torch.empty(0, dtype=torch.int64)]
    for graph, size in enumerate(batch.ragged.sizes):
        first = int(batch.ragged.ptr[graph])
        order = perm[first : first + size] - first
        orders.append(_pairs_of(batch, graph).start + (order[:, None] * size + order[None, :]).reshape(-1))
    return torch.cat(orders)


def tensors_of(batch: GraphBatch) -> list[tuple[str, Tensor]]:
    """Tensors of a batch, by name."""
    fields = [(name, getattr(batch, name)) for name in ("edge_index", "x", "edge_attr", "y")]
    fields += [("ragged.ptr", batch.ragged.ptr), *((f"pe.{name}", value) for name, value in batch.pe.items())]
    fields += [(f"pair_pe.{name}", value) for name, value in batch.pair_pe.items()]
    fields += [(f"edge_pe.{name}", value) for name, value in batch.edge_pe.items()]
    for name, each in batch.edge_sets.items():
        fields += [(f"{name}.index", each.index), (f"{name}.ptr", each.ptr), (f"{name}.attr", each.attr)]
    if batch.pairs is not None:
        fields.append(("pairs.distance", batch.pairs.distance))
    if batch.hops is not None:
        fields += [(f"hops.{name}", getattr(batch.hops, name)) for name in ("row_ptr", "col", "hop")]
    fields += [(f"state.{name}", value) for name, value in batch.state.tensors()]
    return [(name, value) for name, value in fields if value is not None]


def _edges(n: int, random: np.random.Generator, connected: bool) -> np.ndarray:
    """A path per component and some chords, both directions, shuffled."""
    linked = n if connected or n < 3 else n - 1
    half = linked // 2 if n >= 10 and not connected else linked
    pairs = {(i, i + 1) for i in range(linked - 1) if i + 1 != half or half == linked}
    for _ in range(linked):
        a, b = sorted(random.integers(0, linked, 2)) if linked else (0, 0)
        if a != b and (a < half) == (b < half):
            pairs.add((int(a), int(b)))
    one_way = np.asarray(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    both = np.concatenate([one_way, one_way[::-1]], axis=1)
    return both[:, random.permutation(both.shape[1])]


def _distances(n: int, edge_index: np.ndarray) -> np.ndarray:
    """Flat uint8 shortest-path distances, 255 where there is no path."""
    step = np.zeros((n, n), dtype=bool)
    step[edge_index[0], edge_index[1]] = True
    distance = np.where(np.eye(n, dtype=bool), 0, 255).astype(np.uint8)
    reached = np.eye(n, dtype=bool)
    for hops in range(1, min(n, 255)):
        new = (reached @ step) & (distance == 255)
        distance[new] = hops
        reached |= new
    return distance.ravel()
