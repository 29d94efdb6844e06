"""Pairs as the equation, one graph after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import Ragged


def eigen_pairs(eigvecs: Tensor, eigvals: Tensor, ragged: Ragged, flip: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.eigen_pairs.eigen_pairs`."""
    present, parts = (~eigvecs.isnan()).to(eigvecs.dtype), []
    for vectors in eigvecs.detach().split(list(ragged.sizes)):
        sign = torch.randint(0, 2, vectors.shape[1:], device=vectors.device) * 2 - 1 if flip else 1
        parts.append(vectors * sign)
    pairs = torch.stack([torch.cat(parts) if parts else eigvecs.detach(), eigvals.detach()], dim=2)
    return torch.where(present[:, :, None] == 1, pairs, 0.0), present


def sum_present(x: Tensor, present: Tensor) -> Tensor:
    """See :func:`graphbench.ops.eigen_pairs.sum_present`."""
    return (x * present[:, :, None]).sum(1)
