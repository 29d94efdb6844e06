"""Random-feature attention as a loop over graphs with the dense n x n matrix of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from graphbench.structures import Ragged


def kernel_attention(q: Tensor, k: Tensor, v: Tensor, projection: Tensor, ragged: Ragged, eps: float) -> Tensor:
    """See :func:`graphbench.ops.kernel_attention.kernel_attention`."""
    blocks = [v.new_zeros(0, *v.shape[1:])]
    parts = (each.split(list(ragged.sizes)) if ragged.sizes else () for each in (q, k, v))
    for q_ihd, k_jhd, v_jhf in zip(*parts):
        if not len(q_ihd):
            continue
        exponent_q, along_q = _exponent(q_ihd, projection)
        exponent_k, along_k = _exponent(k_jhd, projection)
        features_q = torch.exp(exponent_q - along_q.amax(2, keepdim=True)) + eps
        features_k = torch.exp(exponent_k - along_k.amax((0, 2), keepdim=True)) + eps
        weights_hij = torch.einsum("ihr,jhr->hij", features_q, features_k)
        blocks.append(torch.einsum("hij,jhf->ihf", weights_hij / weights_hij.sum(2, keepdim=True), v_jhf))
    return torch.cat(blocks)


def _exponent(rows: Tensor, projection: Tensor) -> tuple[Tensor, Tensor]:
    scaled = rows / rows.shape[2] ** 0.25
    along = torch.einsum("ihd,rd->ihr", scaled, projection.to(rows.dtype))
    return along - (scaled * scaled).sum(2, keepdim=True) / 2, along
