"""Diagonals of heat kernels, with GraphGPS's conventions.

Paper: Rethinking Graph Transformers with Spectral Attention, https://arxiv.org/abs/2106.03893; conventions: GraphGPS,
https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import MAX_NODES, Stack, StackTransform
from graphbench.transforms.algorithms.krylov import SparseLaplacian
from graphbench.transforms.algorithms.large_graphs import LargeGraph, columns_at_a_time

OPERATIONS = 1e13
"""Multiplications up to which the columns of all nodes are computed: some hours."""

ZERO = 1e-8
"""Eigenvalues below this count as 0."""


@register("HeatKernelSE")
class HeatKernelSE(StackTransform):
    r"""Heat that is left at a node after some time, if all of it started there.

    .. math:: s_{it} = \sum_{k: \lambda_k > 0} e^{-t \lambda_k} u_{ki}^2, \qquad L u_k = \lambda_k u_k, \quad L = D - A

    A: adjacency without self loops, repeated edges counted; D: degrees. Modes of eigenvalue 0 (one per component, what
    is left after infinite time) are taken off, so that an isolated node has 0 at all times. The sum does not depend on
    the signs of eigenvectors, nor on the basis inside a repeated eigenvalue.

    Args:
        times: diffusion times t, each at least 0.
        probes: random vectors for graphs that are too large even for sparse products with all columns, see below.

    Returns:
        ``heat`` (N, len(times)) float32.

    Graphs of more than 16,384 nodes: all columns by Chebyshev series of m terms
    (:mod:`graphbench.transforms.algorithms.krylov`), with an error of at most 1e-10 before rounding, in m E n / 2
    operations; m grows with the root of the longest time and of the largest degree. Above 10^13 operations the diagonal
    is estimated from ``probes`` vectors of random signs, always the same ones: without bias, with a standard deviation
    of at most sqrt(heat left after 2 t / probes), in m E probes operations. Only modes of eigenvalue 0 itself are taken
    off there.

    Conventions (ours): each directed graph is made undirected, see :class:`LaplacianPE`.
    """

    version: ClassVar[int] = 1
    by_graph = True
    outputs: ClassVar[tuple[str, ...]] = ("heat",)
    large_from: int | None = MAX_NODES + 1

    def __init__(self, times: list[float], probes: int = 1024) -> None:
        if not times or any(not math.isfinite(time) or time < 0 for time in times):
            raise ValueError(f"times must list at least one time, each at least 0, received {list(times)}")
        check_at_least(1, probes=probes)
        self.times, self.probes = list(times), probes

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"heat": torch.zeros(store.num_nodes, len(self.times), dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        spectrum, basis = stack.eigen("none")
        times = torch.tensor(self.times, dtype=spectrum.dtype)
        decay = torch.exp(-spectrum.unsqueeze(2) * times) * (spectrum >= ZERO).unsqueeze(2)  # (B, n, times)
        out["heat"][stack.rows] = (basis.square() @ decay).to(out["heat"].dtype)

    def fill_large(self, graph: LargeGraph, out: Mapping[str, Tensor]) -> None:
        """One large graph, some columns at a time."""
        matrix = graph.laplacian("none")
        laplacian = SparseLaplacian(matrix)
        coefficients = laplacian.coefficients(self.times)
        rows = out["heat"][graph.nodes]
        if len(coefficients) / 2 * matrix.nnz * graph.size > OPERATIONS:
            rows.copy_(torch.from_numpy(self._estimated(laplacian, coefficients)))
            return
        limit = 1 / laplacian.component_size[laplacian.component]

        def block(first: int, unit: np.ndarray) -> None:
            heat = laplacian.heat_diagonal(unit, first, coefficients)
            last = first + unit.shape[1]
            rows[first:last] = torch.from_numpy(heat - limit[first:last, None]).to(rows.dtype)

        graph.in_columns(block)

    def _estimated(self, laplacian: SparseLaplacian, coefficients: np.ndarray) -> np.ndarray:
        size = laplacian.matrix.shape[0]
        width = columns_at_a_time(size)
        total, random = np.zeros((size, len(self.times))), np.random.default_rng(0)
        for first in range(0, self.probes, width):
            signs = random.integers(0, 2, (size, min(width, self.probes - first))) * 2.0 - 1
            total += laplacian.heat_estimate(signs, coefficients)
            report(first + signs.shape[1], self.probes)
        return total / self.probes
