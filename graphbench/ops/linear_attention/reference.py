"""Linear attention as a loop over graphs with the dense n x n matrix of weights."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.linear_attention.norms import FLOOR
from graphbench.structures import Ragged


def linear_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, norm: str, base: str) -> Tensor:
    """See :func:`graphbench.ops.linear_attention.linear_attention`."""
    v = v.expand(-1, q.shape[1], -1)
    blocks = [v.new_zeros(0, *v.shape[1:])]
    parts = (x.split(list(ragged.sizes)) if ragged.sizes else () for x in (q, k, v))
    for q_ihd, k_jhd, v_jhe in zip(*parts):
        n = q_ihd.shape[0]
        q_ihd, k_jhd = _normalised(q_ihd, norm), _normalised(k_jhd, norm)
        weights = torch.einsum("ihd,jhd->hij", q_ihd, k_jhd)
        if base == "self":
            weights = weights + n * torch.eye(n, dtype=q.dtype, device=q.device)
        elif base == "uniform":
            weights = weights + 1
        total = weights.sum(2, keepdim=True)
        if base == "none":
            least = FLOOR * (_length(q_ihd) * _length(k_jhd).sum(0)).t().unsqueeze(2)
            total = torch.where(total < 0, -1.0, 1.0) * torch.maximum(total.abs(), least)
            total = torch.where(total == 0, 1.0, total)
        blocks.append(torch.einsum("hij,jhe->ihe", weights / total, v_jhe))
    return torch.cat(blocks)


def _length(rows: Tensor) -> Tensor:
    square = (rows * rows).sum(2)
    return torch.where(square > 0, torch.where(square > 0, square, 1.0).sqrt(), 0.0)


def _normalised(rows: Tensor, norm: str) -> Tensor:
    square = (rows * rows).sum() if norm == "frobenius" else (rows * rows).sum(2, keepdim=True)
    return torch.where(square > 0, rows / torch.where(square > 0, square, 1.0).sqrt(), rows)
