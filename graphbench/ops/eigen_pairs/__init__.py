"""Entries of eigenvectors paired with their eigenvalues, of graphs that may have too few of them."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.eigen_pairs import cpu, reference
from graphbench.structures import Ragged

__all__ = ["eigen_pairs", "sum_present"]


_PAIRS = Backends(reference.eigen_pairs, cpu.eigen_pairs, gpu=True)
_SUM = Backends(reference.sum_present, cpu.sum_present)


def eigen_pairs(
    eigvecs: Tensor, eigvals: Tensor, ragged: Ragged, *, flip: bool, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Pairs (eigenvector entry, eigenvalue) of every node and frequency; has no gradient.

    Args:
        eigvecs: (N, K) floating, grouped by graph; NaN where a graph has no such frequency.
        eigvals: (N, K) of the same type.
        ragged: the partition of the rows.
        flip: draw the signs of the eigenvectors, one per graph and frequency.
        backend: ``"auto"``, ``"reference"``, ``"cpu"`` or ``"gpu"``.

    Returns:
        (N, K, 2) pairs, and (N, K) of the same type 1 where there is a frequency; both 0 where there is none.

    Raises:
        ValueError: shapes do not fit each other.
    """
    if eigvecs.dim() != 2 or eigvecs.shape != eigvals.shape or len(eigvecs) != ragged.num_rows:
        shapes = f"{tuple(eigvecs.shape)} and {tuple(eigvals.shape)}"
        raise ValueError(f"eigvecs and eigvals must be ({ragged.num_rows}, K), received {shapes}")
    return _PAIRS.choose(backend, eigvecs)(eigvecs, eigvals, ragged, flip)


def sum_present(x: Tensor, present: Tensor, *, backend: str = "auto") -> Tensor:
    """``out[i] = sum over k with present[i, k] of x[i, k]``.

    Args:
        x: (N, K, d), finite where it does not count.
        present: (N, K) 0 or 1, from :func:`eigen_pairs`.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (N, d).
    """
    return _SUM.choose(backend, x)(x, present)
