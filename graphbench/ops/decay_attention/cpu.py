"""Attention with a decay mask on tiles that fit into the cache; masks and probabilities are recomputed, not stored.

Notation: B graphs of a bucket, H heads, L rows of the longest, i query rows, j key rows, d and e widths; z the damped
scores. Formulas: README.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.bucket_pairs import accumulate, product
from graphbench.ops.decay_attention.damping import Damping, distances_of
from graphbench.ops.decay_attention.dense import dense
from graphbench.ops.decay_attention.mask import Decay
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

# Scores of a tile, twice those of softmax_attention: a tile has more fixed costs here.
_PAIRS = 1 << 19


def decay_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    index: Tensor,
    start: Tensor,
    mask: Decay,
    dropout_p: float,
    packed: Tensor | None = None,
) -> Tensor:
    """See :func:`graphbench.ops.decay_attention.decay_attention`; ``packed`` is not read."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    if q.device.type != "cpu":
        return dense(q, k, v, ragged, index, start, mask, dropout_p)
    seed = draw_seed() if dropout_p else 0
    with torch.autocast("cpu", enabled=False):  # which would cut what is widened inside
        result: Tensor = _Attention.apply(q, k, v, start, index, ragged, mask, dropout_p, seed)  # type: ignore[no-untyped-call]
    return result


class _Attention(torch.autograd.Function):
    """Forward and backward in tiles; the backward pass repeats scores and masks."""

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
        packed_q, packed_k, packed_v = (layout.pack(x).to(dtype) for x in (q, k, v))
        damping = Damping(mask, start.to(dtype))
        packed_q, out = damping.lifted(packed_q), packed_v.new_empty(packed_v.shape)
        distances = distances_of(index, ragged, layout, mask, dtype)
        for bucket, of_bucket in zip(layout.buckets, distances, strict=True):
            q_Bid, k_Bjd, v_Bje = (bucket.operands(x) for x in (packed_q, packed_k, packed_v))
            out_Bie = torch.empty_like(v_Bje)
            damping.set_bucket(bucket, of_bucket)
            for batch, rows in bucket.tiles(heads, _PAIRS):
                damping.set_tile(batch, rows)
                scores = torch.bmm(q_Bid[batch, rows], k_Bjd[batch].transpose(1, 2))
                probs = torch.softmax(damping.damped(scores, out=scores), dim=-1)
                if keep is not None:
                    probs.mul_(keep.fill_(torch.empty_like(probs)))
                product(probs, v_Bje[batch], out_Bie[batch, rows])
            bucket.put(out_Bie if keep is None else out_Bie.mul_(keep.scale), out)
        return layout.unpack(out).to(v.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, start = ctx.saved_tensors
        ragged, mask, heads, dtype = ctx.ragged, ctx.mask, q.shape[1], compute_dtype(q)
        layout, keep = ragged.layout_for_pairs(heads, _PAIRS), RandomKeep(ctx.p, ctx.seed) if ctx.p else None
        packed_q, packed_k, packed_v, packed_grad = (layout.pack(x).to(dtype) for x in (q, k, v, grad))
        packed_grad = layout.zero_padding(packed_grad)  # padding queries must not reach keys and values
        packed_grads = [torch.empty_like(x) for x in (packed_q, packed_k, packed_v)]
        damping = Damping(mask, start.to(dtype))
        packed_q = damping.lifted(packed_q)
        grad_start = torch.zeros(heads, dtype=dtype) if ctx.needs_input_grad[3] else None
        distances = distances_of(ctx.index, ragged, layout, mask, dtype)
        for bucket, of_bucket in zip(layout.buckets, distances, strict=True):
            damping.set_bucket(bucket, of_bucket)
            q_Bid, k_Bjd, v_Bje = (bucket.operands(x) for x in (packed_q, packed_k, packed_v))
            grad_Bie = bucket.operands(packed_grad)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            grad_q, grad_k, grad_v = (torch.empty_like(x) for x in (q_Bid, k_Bjd, v_Bje))
            for batch, rows in bucket.tiles(heads, _PAIRS):
                damping.set_tile(batch, rows)
                scores = torch.bmm(q_Bid[batch, rows], k_Bjd[batch].transpose(1, 2))
                probs = torch.softmax(damping.damped(scores), dim=-1)
                grad_probs = torch.bmm(grad_Bie[batch, rows], v_Bje[batch].transpose(1, 2))
                kept = probs if keep is None else keep.fill_(torch.empty_like(probs)).mul_(probs)
                accumulate(grad_v[batch], rows, kept.transpose(1, 2), grad_Bie[batch, rows])
                # dz = p (mask dp - sum_j p mask dp), in place
                grad_z = grad_probs.mul_(kept)
                grad_z.addcmul_(probs, grad_z.sum(2, keepdim=True), value=-1)
                grad_scores = damping.backward(grad_z, scores, grad_start)
                product(grad_scores, k_Bjd[batch], grad_q[batch, rows])
                accumulate(grad_k[batch], rows, grad_scores.transpose(1, 2), q_Bid[batch, rows])
            for block, packed_gradient in zip((grad_q, grad_k, grad_v), packed_grads):
                bucket.put(block, packed_gradient)
        packed_grads[0] = damping.lifted(packed_grads[0])
        of_inputs = (layout.unpack(x).to(like.dtype) for x, like in zip(packed_grads, (q, k, v)))
        return *of_inputs, None if grad_start is None else grad_start.to(start.dtype), None, None, None, None, None
