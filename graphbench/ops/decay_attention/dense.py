"""Attention with a decay mask for buckets of graphs of similar size, in plain torch: the path of other devices."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.decay_attention.mask import Decay, no_path
from graphbench.structures import Ragged


def dense(
    q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, index: Tensor, start: Tensor, mask: Decay, dropout_p: float
) -> Tensor:
    """See :func:`graphbench.ops.decay_attention.decay_attention`; memory is that of all scores of a bucket."""
    blocks, wide = [], compute_dtype(v)
    with torch.autocast(v.device.type, enabled=False):  # which would cut what is widened
        packed = (ragged.to_buckets(x.to(wide)) for x in (q, k, v))
        for bucket, q_BLHd, k_BLHd, v_BLHe in zip(ragged.buckets, *packed):
            pairs = ragged.pair_index(bucket)
            cells = index[pairs.view(-1)]
            factors = mask.factors(cells, start.to(wide)).view(*pairs.shape, q.shape[1]).permute(0, 3, 1, 2)
            scores = torch.einsum("bihd,bjhd->bhij", q_BLHd, k_BLHd) / math.sqrt(q.shape[2])
            logits = mask.damped(scores, factors)
            if mask.unreachable == "mask":
                logits = logits.masked_fill(no_path(cells).view(pairs.shape)[:, None], -torch.inf)
            if bucket.mask is not None:
                logits = logits.masked_fill(~bucket.mask[:, None, None, :], -torch.inf)
            weights = torch.dropout(torch.softmax(logits, dim=-1), dropout_p, dropout_p > 0)
            blocks.append(torch.einsum("bhij,bjhe->bihe", weights, v_BLHe))
        return ragged.from_buckets(blocks).to(v.dtype)
