"""Truncated singular value decompositions of relations between all pairs of nodes.

GECO, https://arxiv.org/abs/2406.12059, Appendix B.1: a relative encoding U_r (n, n), e.g. the adjacency or a matrix of
distances, is approximated with rank r and appended to the features, because nothing there holds a matrix of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import eigsh, svds
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least, check_one_of
from graphbench.registry import register
from graphbench.transforms.algorithms.canonical_basis import canonical_factor
from graphbench.transforms.algorithms.dense_blocks import MAX_NODES, Stack, StackTransform
from graphbench.transforms.algorithms.large_graphs import LargeGraph

MATRICES = ("adjacency", "distance")


@register("TruncatedSVD")
class TruncatedSVD(StackTransform):
    r"""The left singular vectors of the ``rank`` largest singular values, scaled by their roots.

    .. math:: M = U S V^T, \qquad \mathrm{vectors} = U_r S_r^{1/2}

    ``adjacency``: :math:`M_{ij}` is the number of edges from i to j. ``distance``: :math:`M_{ij} = 1 / (1 + d_{ij})`
    with the length of the shortest path from i to j, 0 where there is none; the diagonal is 1.

    Args:
        rank: r, columns per node; a graph with fewer nodes is filled up with zeros.
        matrix: M, as above.

    Returns:
        ``vectors`` (N, rank) float32.

    Conventions (ours; the paper says no more than rank r, and no code was released):
        - Unique up to rounding, whatever computes it: signs and the basis inside a repeated singular value are those of
          :mod:`~graphbench.transforms.algorithms.canonical_basis`. Singular values below 1e-8 of the largest count as
          0, values no further apart than that as one.
        - Not unique: M is determined by the products of left with right vectors, so that other signs and bases would
          encode the same relation. Numbering the nodes otherwise permutes the rows, but where several nodes tie as
          pivot the first of them is taken: their graph may get other signs and bases then.
        - Graphs of more than 16,384 nodes: by iteration, which may miss copies of a repeated value; ``distance`` is
          refused there.
    """

    version: ClassVar[int] = 2
    by_graph = True
    outputs: ClassVar[tuple[str, ...]] = ("vectors",)

    def __init__(self, rank: int = 8, matrix: Literal["adjacency", "distance"] = "adjacency") -> None:
        check_at_least(1, rank=rank)
        check_one_of(MATRICES, matrix=matrix)
        self.rank, self.matrix = rank, matrix
        # Distances of all pairs are a dense matrix whatever is done with them.
        self.large_from = MAX_NODES + 1 if matrix == "adjacency" else None

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"vectors": torch.zeros(store.num_nodes, self.rank, dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        matrix = stack.adjacency if self.matrix == "adjacency" else _proximity(stack.adjacency)
        left, values, _ = torch.linalg.svd(matrix)
        kept = min(self.rank, matrix.shape[1])
        out["vectors"][stack.rows, :kept] = canonical_factor(left, values, kept).to(out["vectors"].dtype)

    def fill_large(self, graph: LargeGraph, out: Mapping[str, Tensor]) -> None:
        """One large graph."""
        if not graph.adjacency.nnz:
            return  # all singular values are 0
        left, values = _largest_singular_pairs(graph.adjacency, min(2 * self.rank, graph.size - 1))
        factor = canonical_factor(torch.from_numpy(left)[None], torch.from_numpy(values)[None], self.rank)
        out["vectors"][graph.nodes] = factor[0].to(out["vectors"].dtype)


def _largest_singular_pairs(matrix: sp.csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Left singular vectors (n, count) of a sparse matrix, in columns, and singular values (count,), descending."""
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    if abs(matrix - matrix.T).sum():
        left, values, _ = svds(matrix, count, v0=start, return_singular_vectors="u")
    else:
        # Eigenvalues x and -x are one singular value twice, but two eigenvalues, which an iteration tells apart.
        eigenvalues, left = eigsh(matrix, count, which="LM", v0=start)
        values = np.abs(eigenvalues)
    falling = np.argsort(-values)
    return left[:, falling].copy(), values[falling].copy()


def _proximity(adjacency: Tensor) -> Tensor:
    """(B, n, n), 1 / (1 + hops) from row to column; one more hop in every round."""
    step = (adjacency > 0).to(adjacency.dtype)
    reached = torch.eye(step.shape[1], dtype=step.dtype).expand_as(step)
    proximity, hops = reached.clone(), 0
    while True:
        hops += 1
        further = ((reached @ step + reached) > 0).to(step.dtype)
        new = further - reached
        if not bool(new.any()):
            return proximity
        proximity += new / (1 + hops)
        reached = further
