"""Effective resistances: the graph as a network of unit resistors.

Papers: Graph Sparsification by Effective Resistances, https://arxiv.org/abs/0803.0929; Affinity-Aware Graph Networks,
https://arxiv.org/abs/2206.11941; conventions: Exphormer's code, https://arxiv.org/abs/2303.06147.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import MAX_NODES, Stack, StackTransform
from graphbench.transforms.algorithms.graph_seed import graph_seed
from graphbench.transforms.algorithms.krylov import SparseLaplacian
from graphbench.transforms.algorithms.large_graphs import LargeGraph, columns_at_a_time
from graphbench.transforms.base import Level


@register("EffectiveResistance")
class EffectiveResistance(StackTransform):
    r"""Vectors of nodes between which squared distances are effective resistances.

    .. math:: r_i = S C^{1/2} B L^+ e_i, \qquad \|C^{1/2} B L^+ (e_i - e_j)\|^2 = (e_i - e_j)^T L^+ (e_i - e_j)

    L: Laplacian D - A without self loops; B: one row per directed edge, -1 at its source and +1 at its target;
    C = 1/2, because every edge is there twice. S keeps K rows, the same number for all graphs of a data set.

    Args:
        accuracy: relative error allowed. A graph of n nodes and m directed edges wants k = ceil(8 ln m / accuracy^2)
            rows; K is the largest min(n / 2, k) of all graphs.

    Returns:
        ``embedding`` (N, K) float32.

    Where k is at least n / 2, S keeps the first K edges; otherwise it makes k random combinations (independent normal
    numbers of variance 1 / k), which keep distances up to ``accuracy``. What is missing to K rows is 0.

    Graphs of more than 16,384 nodes: L^+ by conjugate gradients, see
    :data:`graphbench.transforms.algorithms.krylov.RESIDUAL` for the error; the random numbers are signs divided by
    sqrt(k), drawn for all edges of a pair of nodes together.

    Conventions (Exphormer's unless it says ours):
        - The first K edges are all that the original keeps, although distances then are too small.
        - Random numbers of a graph are drawn from its nodes and edges (ours; the original fails there).
        - Directed graphs are made undirected for L (ours), see :class:`LaplacianPE`; a graph without edges has zeros.
    """

    version: ClassVar[int] = 3
    outputs: ClassVar[tuple[str, ...]] = ("embedding",)
    large_from: int | None = MAX_NODES + 1

    def __init__(self, accuracy: float = 0.1) -> None:
        if not accuracy > 0:
            raise ValueError(f"accuracy must be more than 0, received {accuracy}")
        self.accuracy = accuracy

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0, with the number of columns that the data set needs."""
        sizes, counts = store.sizes.tolist(), store.edge_counts.tolist()
        kept = max((min(n // 2, self._num_rows(edges)) for n, edges in zip(sizes, counts, strict=True)), default=0)
        return {"embedding": torch.zeros(store.num_nodes, max(1, kept), dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        embedding, size = out["embedding"], stack.rows.shape[1]
        _, cells = stack.edges
        block, pair = cells // size**2, cells % size**2
        for b, nodes in enumerate(stack.rows):
            ends, inverse = pair[block == b], stack.pseudo_inverse[b]
            rows = self._num_rows(len(ends))
            if rows >= size / 2:
                ends = ends[: embedding.shape[1]]
            drop = (inverse[:, ends % size] - inverse[:, ends // size]) * math.sqrt(0.5)  # (n, edges)
            if rows < size / 2:
                seed = graph_seed(torch.stack([ends // size, ends % size]).numpy(), size)
                random = torch.Generator().manual_seed(seed)
                drop = drop @ torch.randn(len(ends), rows, generator=random, dtype=drop.dtype) / rows**0.5
            embedding[nodes, : drop.shape[1]] = drop.to(embedding.dtype)

    def fill_large(self, graph: LargeGraph, out: Mapping[str, Tensor]) -> None:
        """One large graph, some rows of S at a time."""
        embedding, ends = out["embedding"][graph.nodes], graph.ends
        rows = self._num_rows(ends.shape[1])
        laplacian = SparseLaplacian(graph.laplacian("none"))
        if rows < graph.size / 2:
            blocks = random_potentials(laplacian, rows, graph_seed(ends, graph.size))
        else:
            blocks = _drops(laplacian, ends[:, : embedding.shape[1]])
        for first, solved in blocks:
            embedding[:, first : first + solved.shape[1]] = torch.from_numpy(solved).to(embedding.dtype)

    def _num_rows(self, edges: int) -> int:
        return num_rows(edges, self.accuracy)


@register("EdgeResistance")
class EdgeResistance(StackTransform):
    r"""Effective resistance between the ends of every edge.

    .. math:: R_{ij} = (L^+)_{ii} + (L^+)_{jj} - 2 (L^+)_{ij}, \qquad L = D - A

    1 for an edge whose removal disconnects its ends, smaller the more ways around it there are; 0 for a self loop.
    Repeated edges are resistors side by side.

    Args:
        accuracy: relative error allowed where all of them are too many, see below.

    Returns:
        ``resistance`` (E, 1) float32.

    Graphs of more than 16,384 nodes: by conjugate gradients, one solution per node
    (:data:`graphbench.transforms.algorithms.krylov.RESIDUAL`), or k = ceil(8 ln m / accuracy^2) solutions for random
    combinations of the m edges where k is less than n / 2: unbiased, with a relative standard deviation of sqrt(2 / k).

    Conventions (ours): exact, whereas Exphormer's code sums the truncated vectors of :class:`EffectiveResistance`;
    directed graphs are made undirected, see :class:`LaplacianPE`.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("resistance",)
    level: Level = "edge"
    large_from: int | None = MAX_NODES + 1

    def __init__(self, accuracy: float = 0.1) -> None:
        if not accuracy > 0:
            raise ValueError(f"accuracy must be more than 0, received {accuracy}")
        self.accuracy = accuracy

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"resistance": torch.zeros(store.num_edges, 1, dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        inverse = stack.pseudo_inverse
        diagonal = inverse.diagonal(dim1=1, dim2=2)
        resistance = diagonal.unsqueeze(2) + diagonal.unsqueeze(1) - 2 * inverse
        edges, cells = stack.edges
        out["resistance"][edges, 0] = resistance.flatten()[cells].to(out["resistance"].dtype)

    def fill_large(self, graph: LargeGraph, out: Mapping[str, Tensor]) -> None:
        """One large graph."""
        laplacian = SparseLaplacian(graph.laplacian("none"))
        source, target = graph.ends
        rows = num_rows(len(source), self.accuracy)
        resistance = np.zeros(len(source))
        if rows < graph.size / 2:
            for _, solved in random_potentials(laplacian, rows, 0):
                resistance += np.square(solved[source] - solved[target]).sum(1)
        else:
            diagonal, order = np.zeros(graph.size), np.argsort(target, kind="stable")
            ptr = np.searchsorted(target[order], np.arange(graph.size + 1))

            def block(first: int, unit: np.ndarray) -> None:
                inverse = laplacian.solve(unit)
                last = first + unit.shape[1]
                edges = order[ptr[first] : ptr[last]]
                resistance[edges] = inverse[source[edges], target[edges] - first]
                diagonal[first:last] = inverse[np.arange(first, last), np.arange(last - first)]

            graph.in_columns(block)
            resistance = np.maximum(diagonal[source] + diagonal[target] - 2 * resistance, 0.0)
        out["resistance"][graph.edges, 0] = torch.from_numpy(resistance).to(out["resistance"].dtype)


def num_rows(edges: int, accuracy: float) -> int:
    """Random combinations of edges that keep distances up to a relative error: ceil(8 ln m / accuracy^2)."""
    return math.ceil(8 * math.log(max(edges, 1)) / accuracy**2)


def random_potentials(laplacian: SparseLaplacian, rows: int, seed: int) -> Iterator[tuple[int, np.ndarray]]:
    """Potentials L^+ B^T C^(1/2) s / sqrt(rows) for vectors s of random signs, one sign per pair of joined nodes.

    Args:
        laplacian: Laplacian of the graph.
        rows: vectors.
        seed: seed of the signs.

    Yields:
        Number of the first vector, and (n, w) potentials of w vectors.
    """
    pairs = sp.triu(-laplacian.matrix, 1).tocoo()
    source, target = pairs.coords
    root = pairs.data**0.5
    ends, pair = np.concatenate([source, target]), np.tile(np.arange(pairs.nnz), 2)
    shape = (laplacian.matrix.shape[0], pairs.nnz)
    joins = sp.csr_array((np.concatenate([root, -root]), (ends, pair)), shape=shape)
    width = columns_at_a_time(max(shape))
    random = np.random.default_rng(seed)
    for first in range(0, rows, width):
        signs = random.integers(0, 2, (pairs.nnz, min(width, rows - first))) * 2.0 - 1
        yield first, laplacian.solve(joins @ signs / rows**0.5)
        report(min(first + width, rows), rows)


def _drops(laplacian: SparseLaplacian, ends: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """L^+ (e_target - e_source) sqrt(1/2) for edges (2, K), some at a time."""
    size = laplacian.matrix.shape[0]
    width = columns_at_a_time(size)
    for first in range(0, ends.shape[1], width):
        source, target = ends[:, first : first + width]
        drop, column = np.zeros((size, len(source))), np.arange(len(source))
        np.add.at(drop, (target, column), 0.5**0.5)
        np.add.at(drop, (source, column), -(0.5**0.5))
        yield first, laplacian.solve(drop)
