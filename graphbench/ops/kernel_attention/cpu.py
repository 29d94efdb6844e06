"""Random-feature attention in O(N H m f): per graph one (m, f + 1) matrix, computed for a bucket of graphs at a time.

Notation: B graphs of a bucket, L rows of the longest, N nodes in all, H heads, d, f widths, m features, s samples of
the weights of keys, o = m s.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.segment.cpu import segment_max, segment_repeat, segment_sum
from graphbench.structures import Ragged


def kernel_attention(
    q: Tensor, k: Tensor, v: Tensor, projection: Tensor, ragged: Ragged, eps: float, key_weights: Tensor | None = None
) -> Tensor:
    """See :func:`graphbench.ops.kernel_attention.kernel_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    # Autocast would take the products back to half precision, where a sum over 65,520 keys is infinite.
    with torch.autocast(v.device.type, enabled=False):
        features_q, features_k = _features(q, k, projection, ragged, eps)
        return feature_attention(features_q, features_k, v, ragged, key_weights)


def feature_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, key_weights: Tensor | None = None) -> Tensor:
    """See :func:`graphbench.ops.kernel_attention.feature_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    wide = compute_dtype(q)
    rows = [x.to(wide) for x in (q, k, v, key_weights) if x is not None]
    blocks = []
    with torch.autocast(v.device.type, enabled=False):
        for *packed, bucket in zip(*(ragged.to_buckets(x) for x in rows), ragged.buckets):
            q_BHLm, k_BHLm, v_BHLf, *weights = (x.transpose(1, 2) for x in packed)
            if bucket.mask is not None:
                k_BHLm = k_BHLm * bucket.mask[:, None, :, None]
            blocks.append(_attend(q_BHLm, k_BHLm, v_BHLf, *weights).transpose(1, 2))
        return ragged.from_buckets(blocks).to(v.dtype)


def _attend(q_BHLm: Tensor, k_BHLm: Tensor, v_BHLf: Tensor, u_BHLs: Tensor | None = None) -> Tensor:
    """(B, H, L, f): the mean over samples of the weights of keys."""
    if u_BHLs is None:
        return q_BHLm @ (k_BHLm.transpose(2, 3) @ v_BHLf) / (q_BHLm @ k_BHLm.sum(2).unsqueeze(3))
    total_BHLs = q_BHLm @ (k_BHLm.transpose(2, 3) @ u_BHLs)
    # Samples are concatenated with the features: one product over both, and nothing as wide as samples times values.
    context_BHof = _outer(k_BHLm, u_BHLs).transpose(2, 3) @ v_BHLf
    return _outer(q_BHLm, (total_BHLs * u_BHLs.shape[3]).reciprocal()) @ context_BHof


def _outer(features: Tensor, weights: Tensor) -> Tensor:
    """(B, H, L, m s) products of (B, H, L, m) and (B, H, L, s)."""
    return (features.unsqueeze(4) * weights.unsqueeze(3)).flatten(3)


def edge_weights(
    q: Tensor, k: Tensor, projection: Tensor, ragged: Ragged, source: Tensor, target: Tensor, eps: float
) -> Tensor:
    """See :func:`graphbench.ops.kernel_attention.edge_weights`."""
    with torch.autocast(q.device.type, enabled=False):
        features_q, features_k = _features(q, k, projection, ragged, eps)
        total = segment_repeat(segment_sum(features_k, ragged), ragged)
        total_NH = (features_q * total).sum(2)
        shared_EH = (features_q.index_select(0, target) * features_k.index_select(0, source)).sum(2)
        # Not in the type of q: half precision takes small weights, whose logarithm is asked for, for 0.
        return shared_EH / total_NH.index_select(0, target)


def _features(q: Tensor, k: Tensor, projection: Tensor, ragged: Ragged, eps: float) -> tuple[Tensor, Tensor]:
    """(N, H, m) features of queries and keys, in float32 or wider."""
    wide = compute_dtype(q)
    q, k, projection = q.to(wide), k.to(wide), projection.to(wide)
    exponent_q, along_q = exponents(q, projection)
    exponent_k, along_k = exponents(k, projection)
    top_k_NH1 = segment_repeat(segment_max(along_k.amax(2), ragged), ragged).unsqueeze(2)
    features_q = torch.exp(exponent_q - along_q.amax(2, keepdim=True)) + eps
    return features_q, torch.exp(exponent_k - top_k_NH1) + eps


def exponents(rows: Tensor, projection: Tensor) -> tuple[Tensor, Tensor]:
    """(N, H, m) exponents before stabilisation, and their part along the random directions."""
    scaled = rows * rows.shape[2] ** -0.25
    along = scaled @ projection.t()
    return along - scaled.square().sum(2, keepdim=True) / 2, along
