"""Linear attention as a loop over graphs with the dense n x n matrix of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from graphbench.structures import Ragged


def linear_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, norm: str) -> Tensor:
    """See :func:`graphbench.ops.linear_attention.linear_attention`."""
    v = v.expand(-1, q.shape[1], -1)
    blocks = [v.new_zeros(0, *v.shape[1:])]
    parts = (each.split(list(ragged.sizes)) if ragged.sizes else () for each in (q, k, v))
    for q_ihd, k_jhd, v_jhe in zip(*parts):
        n = len(q_ihd)
        weights = torch.einsum("ihd,jhd->hij", _normalised(q_ihd, norm), _normalised(k_jhd, norm))
        weights = weights + n * torch.eye(n, dtype=q.dtype, device=q.device)
        weights = weights / weights.sum(2, keepdim=True)
        blocks.append(torch.einsum("hij,jhe->ihe", weights, v_jhe))
    return torch.cat(blocks)


def _normalised(rows: Tensor, norm: str) -> Tensor:
    square = (rows * rows).sum() if norm == "frobenius" else (rows * rows).sum(2, keepdim=True)
    return torch.where(square > 0, rows / torch.where(square > 0, square, 1.0).sqrt(), rows)
