"""Rows of length one by torch's operations."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.backend import compute_dtype


def unit_rows(x: Tensor, eps: float) -> Tensor:
    """See :func:`graphbench.ops.unit_rows.unit_rows`."""
    return unit_length(x.relu(), eps=eps)


def unit_length(x: Tensor, dim: int = -1, eps: float = 1e-12) -> Tensor:
    r"""``x / max(\|x\|_2, eps)`` along a dimension: of any sign, in any number format.

    Half precision has no eps of 1e-12, so that a row of zeros is 0 / 0, and squares that leave it.
    """
    return F.normalize(x.to(compute_dtype(x)), dim=dim, eps=eps).to(x.dtype)
