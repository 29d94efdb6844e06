"""Softmax attention on tiles that fit into the cache; probabilities and dropout masks are recomputed, not stored.

Notation: B graphs of a bucket, H heads, L rows of the longest, i query rows, j key rows, d and e widths.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.bucket_pairs import BucketPairs, accumulate, product, scaled
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.softmax_attention.cpu_small import applies, small_attention
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

# Scores of a tile: 1 MB of fp32, so that scores, mask and gradient stay near one core.
_PAIRS = 1 << 18
# From this size on, without dropout, the tiles of torch's fused kernel are faster than whole rows.
_LARGE = 512


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    dropout_p: float,
    bias: Tensor | None,
    packed: Tensor | None = None,
) -> Tensor:
    """See :func:`graphbench.ops.softmax_attention.softmax_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    if q.device.type != "cpu" or (dropout_p == 0 and bias is None and ragged.max_size >= _LARGE):
        return fused(q, k, v, ragged, dropout_p, bias)
    seed = draw_seed() if dropout_p else 0
    with torch.autocast("cpu", enabled=False):  # which would cut what is widened inside
        if bias is None and applies(q, v, ragged, _PAIRS):
            qkv = torch.stack((q, k, v), dim=1) if packed is None else packed
            return small_attention(qkv, ragged, _PAIRS, dropout_p, seed)
        result: Tensor = _Attention.apply(q, k, v, bias, ragged, dropout_p, seed)  # type: ignore[no-untyped-call]
    return result


def fused(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, dropout_p: float, bias: Tensor | None) -> Tensor:
    """Attention by torch's fused kernel, one call per bucket: the fast path of other devices and large graphs."""
    blocks = []
    for bucket, q_BLHd, k_BLHd, v_BLHe in zip(ragged.buckets, *(ragged.to_buckets(x) for x in (q, k, v))):
        mask = None if bucket.mask is None else bucket.mask[:, None, None, :]
        if bias is not None:
            bias_BHij = bias[ragged.pair_index(bucket)].permute(0, 3, 1, 2)
            if mask is not None:  # padding queries keep a finite row, see BucketPairs.bias
                bias_BHij = bias_BHij.masked_fill(~mask.mT, 0.0).masked_fill(~mask, -torch.inf)
            mask = bias_BHij
        q_BHLd, k_BHLd, v_BHLe = (x.transpose(1, 2) for x in (q_BLHd, k_BLHd, v_BLHe))
        out = F.scaled_dot_product_attention(q_BHLd, k_BHLd, v_BHLe, attn_mask=mask, dropout_p=dropout_p)
        blocks.append(out.transpose(1, 2))
    return ragged.from_buckets(blocks)


class _Attention(torch.autograd.Function):
    """Forward and backward in tiles; the backward pass repeats scores and masks (README for the formulas)."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, ragged: Ragged, p: float, seed: int
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, bias)
        ctx.ragged, ctx.p, ctx.seed = ragged, p, seed
        dtype = compute_dtype(q)
        layout, keep = ragged.layout_for_pairs(q.shape[1], _PAIRS), RandomKeep(p, seed) if p else None
        packed_q, packed_k, packed_v = (layout.pack(x).to(dtype) for x in (q, k, v))
        out = packed_v.new_empty(packed_v.shape)
        for bucket in layout.buckets:
            q_Bid, k_Bjd = scaled(bucket.operands(packed_q)), bucket.operands(packed_k)
            v_Bje = bucket.operands(packed_v)
            out_Bie = torch.empty_like(v_Bje)
            pairs = BucketPairs(ragged, bucket, q.shape[1], dtype)
            for batch, rows in bucket.tiles(q.shape[1], _PAIRS):
                probs = _softmax(q_Bid[batch, rows], k_Bjd[batch], _offset(pairs, bias, batch, rows))
                if keep is not None:
                    probs.mul_(keep.fill_(torch.empty_like(probs)))
                product(probs, v_Bje[batch], out_Bie[batch, rows])
            bucket.put(out_Bie if keep is None else out_Bie.mul_(keep.scale), out)
        return layout.unpack(out).to(v.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias = ctx.saved_tensors
        ragged, heads, dtype = ctx.ragged, q.shape[1], compute_dtype(q)
        layout, keep = ragged.layout_for_pairs(heads, _PAIRS), RandomKeep(ctx.p, ctx.seed) if ctx.p else None
        packed_q, packed_k, packed_v, packed_grad = (layout.pack(x).to(dtype) for x in (q, k, v, grad))
        packed_grad = layout.zero_padding(packed_grad)  # padding queries must not reach keys and values
        packed_grads = [torch.empty_like(x) for x in (packed_q, packed_k, packed_v)]
        grad_bias = torch.zeros_like(bias, dtype=dtype) if bias is not None and ctx.needs_input_grad[3] else None
        for bucket in layout.buckets:
            q_Bid, k_Bjd = scaled(bucket.operands(packed_q)), bucket.operands(packed_k)
            v_Bje, grad_Bie = bucket.operands(packed_v), bucket.operands(packed_grad)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            grad_q, grad_k, grad_v = (torch.empty_like(x) for x in (q_Bid, k_Bjd, v_Bje))
            pairs = BucketPairs(ragged, bucket, heads, dtype)
            for batch, rows in bucket.tiles(heads, _PAIRS):
                probs = _softmax(q_Bid[batch, rows], k_Bjd[batch], _offset(pairs, bias, batch, rows))
                grad_probs = torch.bmm(grad_Bie[batch, rows], v_Bje[batch].transpose(1, 2))
                kept = probs if keep is None else keep.fill_(torch.empty_like(probs)).mul_(probs)
                accumulate(grad_v[batch], rows, kept.transpose(1, 2), grad_Bie[batch, rows])
                # ds = p (mask dp - sum_j p mask dp), in place
                grad_scores = grad_probs.mul_(kept)
                grad_scores.addcmul_(probs, grad_scores.sum(2, keepdim=True), value=-1)
                product(grad_scores, k_Bjd[batch], grad_q[batch, rows])
                accumulate(grad_k[batch], rows, grad_scores.transpose(1, 2), q_Bid[batch, rows])
                if grad_bias is not None:
                    pairs.add_to_bias(grad_scores, batch, rows, grad_bias)
            for block, packed_gradient in zip((scaled(grad_q), grad_k, grad_v), packed_grads):
                bucket.put(block, packed_gradient)
        of_inputs = (layout.unpack(x).to(like.dtype) for x, like in zip(packed_grads, (q, k, v)))
        return *of_inputs, None if grad_bias is None else grad_bias.to(bias.dtype), None, None, None


def _offset(pairs: BucketPairs, bias: Tensor | None, batch: slice, rows: slice) -> Tensor | None:
    """(B * H, i, j) what is added to the scores of a tile, or None for nothing."""
    if bias is None:
        return pairs.padding
    added = pairs.bias(bias, batch, rows).flatten(0, 1)
    return added if pairs.padding is None else added + pairs.padding


def _softmax(q_Bid: Tensor, k_Bjd: Tensor, offset: Tensor | None) -> Tensor:
    keys = k_Bjd.transpose(1, 2)
    return torch.softmax(torch.bmm(q_Bid, keys) if offset is None else torch.baddbmm(offset, q_Bid, keys), dim=-1)
