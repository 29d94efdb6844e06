"""Entries of eigenvectors paired with their eigenvalues, of graphs that may have too few of them."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import choose, has_triton
from graphbench.ops.eigen_pairs import cpu, reference
from graphbench.structures import Ragged

__all__ = ["eigen_pairs", "sum_present"]


def _gpu(eigvecs: Tensor, eigvals: Tensor, ragged: Ragged, flip: bool) -> tuple[Tensor, Tensor]:
    from graphbench.ops.eigen_pairs import gpu  # needs Triton

    return gpu.eigen_pairs(eigvecs, eigvals, ragged, flip)


_PAIRS = {"reference": reference.eigen_pairs, "gpu": _gpu, "cpu": cpu.eigen_pairs}
_SUM = {"reference": reference.sum_present, "cpu": cpu.sum_present}


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
    if backend == "auto" and has_triton(eigvecs):
        backend = "gpu"
    return choose("eigen_pairs", backend, _PAIRS)(eigvecs, eigvals, ragged, flip)


def sum_present(x: Tensor, present: Tensor, *, backend: str = "auto") -> Tensor:
    """``out[i] = sum over k with present[i, k] of x[i, k]``.

    Args:
        x: (N, K, d), finite where it does not count.
        present: (N, K) 0 or 1, from :func:`eigen_pairs`.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (N, d).
    """
    return choose("sum_present", backend, _SUM)(x, present)
