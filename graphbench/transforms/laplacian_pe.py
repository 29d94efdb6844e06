"""Laplacian eigenvectors and eigenvalues, with GraphGPS's conventions.

Paper: Benchmarking Graph Neural Networks, https://arxiv.org/abs/2003.00982; conventions: GraphGPS,
https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least, check_one_of
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import MAX_NODES, Stack, StackTransform
from graphbench.transforms.algorithms.large_graphs import LargeGraph, smallest_eigenpairs

_EPS = 1e-12
NORMS = ("L1", "L2", "abs-max", "wavelength", "wavelength-asin", "wavelength-soft")


@register("LaplacianPE")
class LaplacianPE(StackTransform):
    r"""The ``max_freqs`` smallest eigenpairs of the Laplacian of every graph, the trivial one(s) included.

    .. math:: L = D - A, \quad I - D^{-1/2} A D^{-1/2}, \quad I - D^{-1} A \qquad L u_k = \lambda_k u_k

    A: adjacency without self loops, repeated edges counted; D: degrees. Signs are arbitrary, and so is the basis
    inside a repeated eigenvalue (0 repeats once per component): encoders must not rely on either. They are what LAPACK
    returns, and differ between processors and numbers of threads; kept, because published numbers contain that choice.

    Args:
        max_freqs: eigenpairs per graph; a graph with fewer nodes is filled up with NaN.
        laplacian_norm: ``none``, ``sym`` or ``rw``, in the order of the equation.
        eigvec_norm: scaling of every eigenvector: unit ``L1`` or ``L2`` norm, largest entry 1 (``abs-max``), or that
            times a wavelength (``wavelength``, ``wavelength-asin``, ``wavelength-soft``).

    Returns:
        ``eigvecs`` (N, max_freqs) and ``eigvals`` (N, max_freqs, 1), the latter repeated for every node, float32.

    Conventions (GraphGPS's unless it says ours):
        - An isolated node has diagonal 0 with ``none`` and 1 with ``sym`` and ``rw``.
        - ``rw`` is not symmetric, but decomposed as if it were, from its lower triangle. Kept, because published
          numbers contain it; its eigenvectors depend on the node order.
        - Directed graphs (ours): each graph that has a one-way edge is made undirected. GraphGPS asks the first ten
          graphs and then treats all alike.
        - Computed in float64 (GraphGPS: eigenvectors scaled in float32).
        - Graphs of more than 16,384 nodes (ours): by iteration, to about 1e-10 of the largest eigenvalue; of an
          eigenvalue that repeats inside one component copies may be missing.
    """

    version: ClassVar[int] = 1
    by_graph = True
    missing_value = math.nan
    outputs: ClassVar[tuple[str, ...]] = ("eigvecs", "eigvals")
    large_from: int | None = MAX_NODES + 1

    def __init__(
        self,
        max_freqs: int = 10,
        laplacian_norm: Literal["none", "sym", "rw"] = "sym",
        eigvec_norm: Literal["L1", "L2", "abs-max", "wavelength", "wavelength-asin", "wavelength-soft"] = "L2",
    ) -> None:
        check_at_least(1, max_freqs=max_freqs)
        check_one_of(("none", "sym", "rw"), laplacian_norm=laplacian_norm)
        check_one_of(NORMS, eigvec_norm=eigvec_norm)
        self.max_freqs, self.laplacian_norm, self.eigvec_norm = max_freqs, laplacian_norm, eigvec_norm

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All NaN."""
        shape = (store.num_nodes, self.max_freqs)
        return {
            "eigvecs": torch.full(shape, math.nan, dtype=dtype),
            "eigvals": torch.full((*shape, 1), math.nan, dtype=dtype),
        }

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        self._write(out, stack.rows, *stack.eigen(self.laplacian_norm))

    def fill_large(self, graph: LargeGraph, out: Mapping[str, Tensor]) -> None:
        """One large graph."""
        values, vectors = smallest_eigenpairs(graph.laplacian(self.laplacian_norm), self.max_freqs)
        rows = torch.arange(graph.nodes.start, graph.nodes.stop).unsqueeze(0)
        self._write(out, rows, torch.from_numpy(values).unsqueeze(0), torch.from_numpy(vectors).unsqueeze(0))

    def _write(self, out: Mapping[str, Tensor], rows: Tensor, values: Tensor, vectors: Tensor) -> None:
        kept = min(self.max_freqs, rows.shape[1])
        values, vectors = values[:, :kept].clamp_min(0), vectors[:, :, :kept]
        out["eigvals"][rows, :kept, 0] = values.unsqueeze(1).expand_as(vectors).to(out["eigvals"].dtype)
        out["eigvecs"][rows, :kept] = scale(vectors, values, self.eigvec_norm).to(out["eigvecs"].dtype)


def scale(vectors: Tensor, values: Tensor, norm: str) -> Tensor:
    """Scales eigenvectors.

    Args:
        vectors: (B, n, k), one per column.
        values: (B, k), eigenvalues, not negative.
        norm: see :class:`LaplacianPE`.

    Returns:
        (B, n, k).
    """
    size = vectors.abs()
    largest = size.amax(1, keepdim=True)
    # 1 / frequency; an eigenvalue of 0 has no wavelength and is left alone
    frequency = torch.where(values < _EPS, 1.0, values.clamp_min(0).sqrt()).unsqueeze(1)
    if norm == "wavelength-asin":
        return torch.asin((vectors / largest.clamp_min(_EPS)).clamp(-1, 1)) / frequency
    denominators = {
        "L1": lambda: size.sum(1, keepdim=True),
        "L2": lambda: size.square().sum(1, keepdim=True).sqrt(),
        "abs-max": lambda: largest,
        "wavelength": lambda: largest * frequency * 2 / np.pi,
        "wavelength-soft": lambda: (torch.softmax(size, dim=1) * size).sum(1, keepdim=True) * frequency,
    }
    return vectors / denominators[norm]().clamp_min(_EPS)
