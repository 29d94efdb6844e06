"""Attention in tiles of query rows, for a bucket of graphs at a time.

Notation: B graphs of a bucket, L rows of the longest, H heads, d and f widths.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from graphbench.ops.backend import compute_dtype
from graphbench.ops.pair_attention.weights import WEIGHTS
from graphbench.structures import Ragged

# Pairs (times heads) of a tile.
_PAIRS = 1 << 22


def pair_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, weight: str) -> Tensor:
    """See :func:`graphbench.ops.pair_attention.pair_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v.expand(-1, q.shape[1], -1) * 0
    wide = compute_dtype(v)
    with torch.autocast(v.device.type, enabled=False):
        packed = (ragged.to_buckets(x.to(wide)) for x in (q, k, v))
        blocks = []
        for q_BLHd, k_BLHd, v_BLHf, bucket in zip(*packed, ragged.buckets):
            q_BHLd, k_BHLd, v_BHLf = (x.transpose(1, 2) for x in (q_BLHd, k_BLHd, v_BLHf))
            mask_B11L = None if bucket.mask is None else bucket.mask[:, None, None, :]
            blocks.append(_attend(WEIGHTS[weight], q_BHLd, k_BHLd, v_BHLf, mask_B11L).transpose(1, 2))
        return ragged.from_buckets(blocks).to(v.dtype)


def _attend(
    weigh: Callable[[Tensor, Tensor], Tensor], q_BHLd: Tensor, k_BHLd: Tensor, v_BHLf: Tensor, mask_B11L: Tensor | None
) -> Tensor:
    """(B, H, L, f)."""

    def tile(q_BHid: Tensor, k_BHjd: Tensor, v_BHjf: Tensor) -> Tensor:
        w_BHij = weigh(q_BHid, k_BHjd)
        if mask_B11L is not None:
            w_BHij = w_BHij * mask_B11L
        # Divided before the product: after it, large terms would cancel in the gradient of the weights.
        return (w_BHij / w_BHij.sum(3, keepdim=True)) @ v_BHjf

    graphs, heads, length = q_BHLd.shape[:3]
    rows = max(1, _PAIRS // (graphs * heads * length))
    if rows >= length:
        return tile(q_BHLd, k_BHLd, v_BHLf)
    parts: list[Tensor] = [
        checkpoint(tile, q_BHid, k_BHLd, v_BHLf, use_reentrant=False, preserve_rng_state=False)
        for q_BHid in q_BHLd.split(rows, dim=2)
    ]
    return torch.cat(parts, dim=2)
