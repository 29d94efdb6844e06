"""Candidates of four samplers, super-nodes and proximities, from which ANS-GT draws sequences, computed on the host.

From https://arxiv.org/abs/2210.03930, computed once per graph. A^ is
D^-1/2 (A + I) D^-1/2 throughout; rows are numbered through the batch, and nothing crosses from one graph to another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphbench.structures import GraphBatch, SparseRows

SAMPLERS = ("1-hop", "2-hop", "PPR", "KNN")
VECTORS, SWEEPS = 10, 10
"""Test vectors of the coarsening, and Jacobi sweeps that smooth them."""
_CELLS = 1 << 22  # of one block of rows in the computation of candidates, 8 bytes each


def normalised_adjacency(batch: GraphBatch) -> sp.csr_array:
    """A^ (N, N), repeated edges once, as float64."""
    nodes = batch.num_nodes
    target, source = batch.edge_index.to("cpu").numpy()[::-1]
    links = sp.coo_array((np.ones(len(source)), (target, source)), shape=(nodes, nodes)).tocsr()
    links.data[:] = 1.0
    return _normalised(links)


def _normalised(links: sp.csr_array) -> sp.csr_array:
    with_loops = (links + sp.eye_array(links.shape[0])).tocsr()
    scale = sp.diags_array(np.asarray(with_loops.sum(axis=1)).reshape(-1) ** -0.5)
    return (scale @ with_loops @ scale).tocsr()


@dataclass(frozen=True, eq=False)
class Candidates:
    """Nodes that a sampler may draw for every node, and how likely each sampler is to draw them.

    Attributes:
        ptr: (N+1,) int64, candidates of every node.
        graph_ptr: (G+1,) int64, candidates of every graph.
        node: (P,) int64.
        weight: (P, 4), one column per sampler in :data:`SAMPLERS`; those of a node sum to 1, or to 0.
    """

    ptr: np.ndarray
    graph_ptr: np.ndarray
    node: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, batch: GraphBatch, adjacency: sp.csr_array, count: int, teleport: float, steps: int) -> Candidates:
        r"""Rows of A^, A^^2, personalised PageRank and cosine similarity, without the node itself.

        PageRank takes ``steps`` terms of p <- c e_i + (1 - c) A^ p. Of every sampler, the ``count`` largest positive
        entries of a row are kept.
        """
        nodes, graph = batch.num_nodes, batch.ragged.graph_id.to("cpu").numpy()
        features, width = _unit_rows(batch), max(1, _CELLS // max(nodes, 1))
        pieces = []
        for first in range(0, nodes, width):
            rows = np.arange(first, min(first + width, nodes))
            one = adjacency[rows]
            unit = sp.csr_array((np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=one.shape).toarray()
            rank = unit
            for _ in range(steps):
                rank = teleport * unit + (1 - teleport) * (adjacency @ rank.T).T
            similar = _dense(features[rows] @ features.T) * (graph[rows, None] == graph)
            pieces.append(_kept([one.toarray(), (one @ adjacency).toarray(), rank, similar], rows, count))
        rows_ptr = batch.ragged.ptr.to("cpu").numpy()
        if not pieces:
            return cls(
                np.zeros(1, np.int64), np.zeros_like(rows_ptr), np.empty(0, np.int64), np.empty((0, len(SAMPLERS)))
            )
        counts, node, weight = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        ptr = np.concatenate([[0], np.cumsum(counts)])
        return cls(ptr, ptr[rows_ptr], node, weight)

    def draw(self, share: np.ndarray, length: int, waiting: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Up to ``length`` different candidates of every node, one after the other by the mixture of the samplers.

        Args:
            share: (4,) of the samplers in the mixture.
            length: K.
            waiting: (P,) from the standard exponential distribution.

        Returns:
            (N, K) nodes, -1 where a node has fewer candidates, and (N, K, 4) their weights.
        """
        nodes = len(self.ptr) - 1
        mixture = self.weight @ share
        with np.errstate(divide="ignore"):
            arrival = waiting / mixture  # the order of arrivals is that of the draws
        row = np.repeat(np.arange(nodes), np.diff(self.ptr))
        order = np.lexsort((arrival, row))
        rank = np.arange(len(order)) - self.ptr[row]
        taken = (rank < length) & np.isfinite(arrival[order])
        node = np.full((nodes, length), -1, dtype=np.int64)
        weight = np.zeros((nodes, length, len(SAMPLERS)))
        node[row[taken], rank[taken]] = self.node[order[taken]]
        weight[row[taken], rank[taken]] = self.weight[order[taken]]
        return node, weight


def _kept(samplers: list[np.ndarray], rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Candidates per row, their nodes and their weights, from the dense rows of every sampler."""
    weights = []
    for scores in samplers:
        scores[np.arange(len(rows)), rows] = 0.0
        positive = np.maximum(scores, 0.0)
        if positive.shape[1] > count:
            border = np.partition(positive, -count, axis=1)[:, -count, None]
            positive[positive < border] = 0.0
        total = positive.sum(axis=1, keepdims=True)
        weights.append(positive / np.where(total > 0, total, 1.0))
    row, node = np.where(sum(weights) > 0)
    weight = np.stack([each[row, node] for each in weights], axis=1)
    return np.bincount(row, minlength=len(rows)), node, weight


def _unit_rows(batch: GraphBatch) -> sp.csr_array | np.ndarray:
    """Node features, rows of length 1 or 0; one column of zeros where there are none."""
    x = batch.x
    if x is None:
        return np.zeros((batch.num_nodes, 1))
    if isinstance(x, SparseRows):
        value, column, ptr = (each.to("cpu").numpy() for each in (x.value.double(), x.column, x.ptr))
        rows = sp.csr_array((value, column, ptr), shape=tuple(x.shape))
        length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1))
        return (sp.diags_array(1 / np.where(length > 0, length, 1.0)) @ rows).tocsr()
    dense = x.detach().to("cpu", torch.float64).flatten(1).numpy()
    length = np.linalg.norm(dense, axis=1, keepdims=True)
    return dense / np.where(length > 0, length, 1.0)


def _dense(matrix: sp.csr_array | np.ndarray) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def coarsened(batch: GraphBatch, ratio: float) -> np.ndarray:
    """(N,) super-node of every node: edges of every graph are contracted until a share ``ratio`` of its nodes is left.

    Algebraic Jacobi coarsening: the edges of a matching are contracted, those first whose ends have the most similar
    values in smoothed random vectors (the largest difference counts), and again on the coarser graph. Super-nodes
    never join components. The vectors come from a stream of their own, always the same.
    """
    source, target = batch.edge_index.to("cpu").numpy()
    cluster = np.arange(batch.num_nodes)
    first = np.concatenate([[0], np.cumsum(batch.ragged.sizes)]).astype(np.int64)
    edge_graph = batch.ragged.graph_id.to("cpu").numpy()[source]
    for graph, size in enumerate(batch.ragged.sizes):
        inside, start = edge_graph == graph, first[graph]
        ends = (source[inside] - start, target[inside] - start)
        cluster[start : start + size] = start + _contracted(*ends, size, int(np.ceil(ratio * size)))
    return np.unique(cluster, return_inverse=True)[1]


def _contracted(source: np.ndarray, target: np.ndarray, size: int, wanted: int) -> np.ndarray:
    rng, cluster, left = np.random.default_rng(0), np.arange(size), size
    while left > wanted:
        a, b = cluster[source], cluster[target]
        apart = a != b
        if not apart.any():
            break
        links = sp.coo_array((np.ones(apart.sum()), (b[apart], a[apart])), shape=(left, left)).tocsr()
        links = (links + links.T).tocsr()
        smooth = rng.uniform(-0.5, 0.5, (left, VECTORS))
        degree = np.maximum(np.asarray(links.sum(axis=1)), 1.0).reshape(-1, 1)
        for _ in range(SWEEPS):
            smooth = 0.5 * smooth + 0.5 * (links @ smooth) / degree
        pairs = sp.triu(links, k=1).tocoo()
        distance = np.abs(smooth[pairs.row] - smooth[pairs.col]).max(axis=1)
        joined, free = np.arange(left), np.ones(left, dtype=bool)
        budget = left - wanted
        for edge in np.argsort(distance, kind="stable"):
            i, j = pairs.row[edge], pairs.col[edge]
            if budget and free[i] and free[j]:
                joined[j], free[i], free[j], budget = i, False, False, budget - 1
        cluster = np.unique(joined, return_inverse=True)[1][cluster]
        left = int(cluster.max()) + 1
    return cluster


def coarse_powers(batch: GraphBatch, cluster: np.ndarray, orders: int) -> Tensor:
    """(orders, C, C) powers 1 .. orders of the normalised adjacency of the super-nodes.

    Edges between super-nodes weigh P^T A P with P_ic = 1 / sqrt(nodes of c) for the nodes i of c.
    """
    nodes, count = batch.num_nodes, int(cluster.max(initial=-1)) + 1
    target, source = batch.edge_index.to("cpu").numpy()[::-1]
    links = sp.coo_array((np.ones(len(source)), (target, source)), shape=(nodes, nodes)).tocsr()
    members = np.bincount(cluster, minlength=count)
    spread = sp.csr_array((members[cluster] ** -0.5, (np.arange(nodes), cluster)), shape=(nodes, count))
    first = torch.from_numpy(_normalised((spread.T @ links @ spread).tocsr()).toarray())
    powers = [first] if count else [first.new_zeros(0, 0)]
    for _ in range(orders - 1):
        powers.append(first @ powers[-1])
    return torch.stack(powers)
