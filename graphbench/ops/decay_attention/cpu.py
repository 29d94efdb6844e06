"""Attention with a decay mask on blocks that fit into the cache; masks and probabilities are recomputed, not stored.

Notation: B graphs of a bucket, H heads, L rows of the longest, i query rows, j key rows, d and e widths; z the damped
scores. Formulas: README.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphbench.ops.backend import compute_dtype
from graphbench.ops.bucket_pairs import accumulate
from graphbench.ops.decay_attention.dense import dense
from graphbench.ops.decay_attention.mask import Decay
from graphbench.ops.decay_attention.pair_blocks import Damping, blocks_of
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.structures import Ragged

# Scores handled at a time, twice those of softmax_attention: a block has more fixed costs here.
_PAIRS = 1 << 19


def decay_attention(
    q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, index: Tensor, start: Tensor, mask: Decay, dropout_p: float
) -> Tensor:
    """See :func:`graphbench.ops.decay_attention.decay_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    if q.device.type != "cpu":
        return dense(q, k, v, ragged, index, start, mask, dropout_p)
    seed = draw_seed() if dropout_p else 0
    with torch.autocast("cpu", enabled=False):  # which would cut what is widened inside
        result: Tensor = _Attention.apply(q, k, v, start, index, ragged, mask, dropout_p, seed)  # type: ignore[no-untyped-call]
    return result


class _Attention(torch.autograd.Function):
    """Forward and backward in blocks; the backward pass repeats scores and masks."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        start: Tensor,
        index: Tensor,
        ragged: Ragged,
        mask: Decay,
        p: float,
        seed: int,
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, start)
        ctx.index, ctx.ragged, ctx.mask, ctx.p, ctx.seed = index, ragged, mask, p, seed
        dtype, heads = compute_dtype(q), q.shape[1]
        layout, keep = ragged.layout_for_pairs(heads, _PAIRS), RandomKeep(p, seed) if p else None
        q, k, packed_v = (layout.pack(each).to(dtype) for each in (q, k, v))
        damping = Damping(mask, start.to(dtype))
        q, out = damping.lifted(q), packed_v.new_empty(packed_v.shape)
        for bucket, block in zip(layout.buckets, blocks_of(index, ragged, layout, mask, dtype), strict=True):
            q_Bid, k_Bjd, v_Bje = (bucket.heads_first(each) for each in (q, k, packed_v))
            out_Bie = torch.empty_like(v_Bje)
            damping.enter(bucket, block)
            for batch, rows in bucket.tiles(heads, _PAIRS):
                damping.at(batch, rows)
                scores = torch.bmm(q_Bid[batch, rows], k_Bjd[batch].transpose(1, 2))
                weights = torch.softmax(damping.damped(scores, out=scores), dim=-1)
                if keep is not None:
                    weights.mul_(keep.fill_(torch.empty_like(weights)))
                torch.bmm(weights, v_Bje[batch], out=out_Bie[batch, rows])
            bucket.put(out_Bie if keep is None else out_Bie.mul_(keep.scale), out)
        return layout.unpack(out).to(v.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, start = ctx.saved_tensors
        ragged, mask, heads, dtype = ctx.ragged, ctx.mask, q.shape[1], compute_dtype(q)
        layout, keep = ragged.layout_for_pairs(heads, _PAIRS), RandomKeep(ctx.p, ctx.seed) if ctx.p else None
        packed_q, packed_k, packed_v, grad = (layout.pack(each).to(dtype) for each in (q, k, v, grad))
        grad = layout.zero_padding(grad)  # padding queries must not reach keys and values
        grad_q, grad_k, grad_v = (torch.empty_like(each) for each in (packed_q, packed_k, packed_v))
        damping = Damping(mask, start.to(dtype))
        packed_q = damping.lifted(packed_q)
        grad_start = torch.zeros(heads, dtype=dtype) if ctx.needs_input_grad[3] else None
        for bucket, block in zip(layout.buckets, blocks_of(ctx.index, ragged, layout, mask, dtype), strict=True):
            damping.enter(bucket, block)
            q_Bid, k_Bjd = bucket.heads_first(packed_q), bucket.heads_first(packed_k)
            v_Bje, grad_Bie = bucket.heads_first(packed_v), bucket.heads_first(grad)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            gq, gk, gv = torch.empty_like(q_Bid), torch.empty_like(k_Bjd), torch.empty_like(v_Bje)
            for batch, rows in bucket.tiles(heads, _PAIRS):
                damping.at(batch, rows)
                scores = torch.bmm(q_Bid[batch, rows], k_Bjd[batch].transpose(1, 2))
                weights = torch.softmax(damping.damped(scores), dim=-1)
                change = torch.bmm(grad_Bie[batch, rows], v_Bje[batch].transpose(1, 2))
                kept = weights if keep is None else keep.fill_(torch.empty_like(weights)).mul_(weights)
                accumulate(gv[batch], rows, kept.transpose(1, 2), grad_Bie[batch, rows])
                # d z = w (d w - sum_j w d w), with d w = keep * change
                change.mul_(kept)
                change.addcmul_(weights, change.sum(2, keepdim=True), value=-1)
                change = damping.backward(change, scores, grad_start)
                torch.bmm(change, k_Bjd[batch], out=gq[batch, rows])
                accumulate(gk[batch], rows, change.transpose(1, 2), q_Bid[batch, rows])
            bucket.put(gq, grad_q)
            bucket.put(gk, grad_k)
            bucket.put(gv, grad_v)
        grads = (
            layout.unpack(each).to(like.dtype) for each, like in ((damping.lifted(grad_q), q), (grad_k, k), (grad_v, v))
        )
        return *grads, None if grad_start is None else grad_start.to(start.dtype), None, None, None, None, None
