"""Random-feature attention as a loop over graphs with the dense n x n matrix of weights."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import Ragged


def kernel_attention(
    q: Tensor, k: Tensor, v: Tensor, projection: Tensor, ragged: Ragged, eps: float, key_weights: Tensor | None = None
) -> Tensor:
    """See :func:`graphbench.ops.kernel_attention.kernel_attention`."""
    blocks = [v.new_zeros(0, *v.shape[1:])]
    if key_weights is None:
        key_weights = k.new_ones(*k.shape[:2], 1)
    parts = (x.split(list(ragged.sizes)) if ragged.sizes else () for x in (q, k, v, key_weights))
    for q_ihd, k_jhd, v_jhf, u_jhs in zip(*parts):
        if not q_ihd.shape[0]:
            continue
        weights_shij = _weights(q_ihd, k_jhd, projection, eps) * u_jhs.permute(2, 1, 0).unsqueeze(2)
        weights_shij = weights_shij / weights_shij.sum(3, keepdim=True)
        blocks.append(torch.einsum("shij,jhf->ihf", weights_shij, v_jhf) / u_jhs.shape[2])
    return torch.cat(blocks)


def feature_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, key_weights: Tensor | None = None) -> Tensor:
    """See :func:`graphbench.ops.kernel_attention.feature_attention`."""
    blocks = [v.new_zeros(0, *v.shape[1:])]
    if key_weights is None:
        key_weights = k.new_ones(*k.shape[:2], 1)
    parts = (x.split(list(ragged.sizes)) if ragged.sizes else () for x in (q, k, v, key_weights))
    for q_ihm, k_jhm, v_jhf, u_jhs in zip(*parts):
        weights_shij = torch.einsum("ihm,jhm,jhs->shij", q_ihm, k_jhm, u_jhs)
        weights_shij = weights_shij / weights_shij.sum(3, keepdim=True)
        blocks.append(torch.einsum("shij,jhf->ihf", weights_shij, v_jhf) / u_jhs.shape[2])
    return torch.cat(blocks)


def edge_weights(
    q: Tensor, k: Tensor, projection: Tensor, ragged: Ragged, source: Tensor, target: Tensor, eps: float
) -> Tensor:
    """See :func:`graphbench.ops.kernel_attention.edge_weights`."""
    weights = []
    for s, t in zip(source.tolist(), target.tolist()):
        graph = int(ragged.graph_id[t])
        first, last = int(ragged.ptr[graph]), int(ragged.ptr[graph + 1])
        weights_hij = _weights(q[first:last], k[first:last], projection, eps)
        weights.append(weights_hij[:, t - first, s - first])
    return torch.stack(weights) if weights else q.new_zeros(0, q.shape[1])


def _weights(q_ihd: Tensor, k_jhd: Tensor, projection: Tensor, eps: float) -> Tensor:
    """(H, n, n) weights of one graph; rows sum to one."""
    exponent_q, along_q = _exponent(q_ihd, projection)
    exponent_k, along_k = _exponent(k_jhd, projection)
    features_q = torch.exp(exponent_q - along_q.amax(2, keepdim=True)) + eps
    features_k = torch.exp(exponent_k - along_k.amax((0, 2), keepdim=True)) + eps
    weights_hij = torch.einsum("ihr,jhr->hij", features_q, features_k)
    return weights_hij / weights_hij.sum(2, keepdim=True)


def _exponent(rows: Tensor, projection: Tensor) -> tuple[Tensor, Tensor]:
    scaled = rows / rows.shape[2] ** 0.25
    along = torch.einsum("ihd,rd->ihr", scaled, projection.to(rows.dtype))
    return along - (scaled * scaled).sum(2, keepdim=True) / 2, along
