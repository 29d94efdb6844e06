"""Laplacian eigenvectors and eigenvalues, with GraphGPS's conventions.

Paper: Benchmarking Graph Neural Networks, https://arxiv.org/abs/2003.00982; conventions: GraphGPS,
https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms._dense_blocks import adjacency_stacks

_EPS = 1e-12
NORMS = ("L1", "L2", "abs-max", "wavelength", "wavelength-asin", "wavelength-soft")


@register("LaplacianPE")
class LaplacianPE:
    r"""The ``max_freqs`` smallest eigenpairs of the Laplacian of every graph, the trivial one(s) included.

    .. math:: L = D - A, \quad I - D^{-1/2} A D^{-1/2}, \quad I - D^{-1} A \qquad L u_k = \lambda_k u_k

    A: adjacency without self loops; D: degrees. Signs are arbitrary, and so is the basis inside a repeated
    eigenvalue (0 repeats once per component): encoders must not rely on either.

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
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        max_freqs: int = 10,
        laplacian_norm: Literal["none", "sym", "rw"] = "sym",
        eigvec_norm: Literal["L1", "L2", "abs-max", "wavelength", "wavelength-asin", "wavelength-soft"] = "L2",
    ) -> None:
        if max_freqs < 1:
            raise ValueError(f"max_freqs must be at least 1, received {max_freqs}")
        if laplacian_norm not in ("none", "sym", "rw"):
            raise ValueError(f"laplacian_norm must be none, sym or rw, received {laplacian_norm!r}")
        if eigvec_norm not in NORMS:
            raise ValueError(f"eigvec_norm must be one of {', '.join(NORMS)}, received {eigvec_norm!r}")
        self.max_freqs, self.laplacian_norm, self.eigvec_norm = max_freqs, laplacian_norm, eigvec_norm

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Encodes all graphs of a store."""
        values, vectors = self.decompose(store)
        return {"eigvecs": vectors.to(torch.float32), "eigvals": values.to(torch.float32).unsqueeze(2)}

    def decompose(self, store: GraphStore) -> tuple[Tensor, Tensor]:
        """Eigenvalues and scaled eigenvectors per node, (N, max_freqs) float64 each, NaN where there is none."""
        values = torch.full((store.num_nodes, self.max_freqs), math.nan, dtype=torch.float64)
        vectors = torch.full_like(values, math.nan)
        for rows, adjacency in adjacency_stacks(store, symmetrize=True):
            spectrum, basis = torch.linalg.eigh(laplacian(adjacency, self.laplacian_norm))
            kept = min(self.max_freqs, rows.shape[1])
            spectrum, basis = spectrum[:, :kept].clamp_min(0), basis[:, :, :kept]
            values[rows, :kept] = spectrum.unsqueeze(1).expand_as(basis)
            vectors[rows, :kept] = scale(basis, spectrum, self.eigvec_norm)
        return values, vectors


def laplacian(adjacency: Tensor, norm: str) -> Tensor:
    """Laplacians of a stack of graphs.

    Args:
        adjacency: (B, n, n); the diagonal (self loops) is not counted.
        norm: ``none``, ``sym`` or ``rw``.

    Returns:
        (B, n, n).
    """
    weights = adjacency - torch.diag_embed(adjacency.diagonal(dim1=1, dim2=2))
    degree = weights.sum(2)
    if norm == "none":
        return torch.diag_embed(degree) - weights
    identity = torch.eye(weights.shape[1], dtype=weights.dtype)
    power = -0.5 if norm == "sym" else -1.0
    inverse = torch.where(degree > 0, degree.clamp_min(1).pow(power), 0.0)
    scaled = inverse.unsqueeze(2) * weights
    return identity - (scaled * inverse.unsqueeze(1) if norm == "sym" else scaled)


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
