"""Softmax attention on blocks that fit into the cache; probabilities and dropout masks are recomputed, not stored.

Notation: B graphs of a chunk, H heads, L rows of the longest, i query rows, j key rows, d and e widths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphbench.ops.blocks import Chunk, accumulate, compute_dtype, pair_index, plan_of, scaled
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.segment.cpu import pack, unpack

if TYPE_CHECKING:
    from graphbench.structures import Ragged

# Scores handled at a time: 1 MB of fp32, so that scores, mask and gradient stay near one core.
_BLOCK = 1 << 18
# From this size on, without dropout, the tiles of torch's fused kernel are faster than whole rows.
_LARGE = 512


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, dropout_p: float, bias: Tensor | None) -> Tensor:
    """See :func:`graphbench.ops.softmax_attention.softmax_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    if q.device.type != "cpu" or (dropout_p == 0 and bias is None and ragged.max_size >= _LARGE):
        return fused(q, k, v, ragged, dropout_p, bias)
    seed = draw_seed() if dropout_p else 0
    with torch.autocast("cpu", enabled=False):  # which would cut what is widened inside
        result: Tensor = _Attention.apply(q, k, v, bias, ragged, dropout_p, seed)  # type: ignore[no-untyped-call]
    return result


def fused(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, dropout_p: float, bias: Tensor | None) -> Tensor:
    """The same through torch's fused kernel, one call per bucket: the fast path of other devices and large graphs."""
    blocks = []
    for bucket, q_BLHd, k_BLHd, v_BLHe in zip(ragged.buckets, pack(q, ragged), pack(k, ragged), pack(v, ragged)):
        mask = None if bucket.mask is None else bucket.mask[:, None, None, :]
        if bias is not None:
            pairs = pair_index(bucket.graphs, bucket.length, ragged.sizes).to(bias.device, non_blocking=True)
            bias_BHij = bias[pairs].permute(0, 3, 1, 2)
            mask = bias_BHij if mask is None else bias_BHij.masked_fill(~mask, -torch.inf)
        q_BHLd, k_BHLd, v_BHLe = (each.transpose(1, 2) for each in (q_BLHd, k_BLHd, v_BLHe))
        out = F.scaled_dot_product_attention(q_BHLd, k_BHLd, v_BHLe, attn_mask=mask, dropout_p=dropout_p)
        blocks.append(out.transpose(1, 2))
    return unpack(blocks, ragged)


class _Attention(torch.autograd.Function):
    """Forward and backward in blocks; the backward pass repeats scores and masks (README for the formulas)."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, ragged: Ragged, p: float, seed: int
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, bias)
        ctx.ragged, ctx.p, ctx.seed = ragged, p, seed
        dtype = compute_dtype(q)
        plan, keep = plan_of(ragged, q.shape[1], _BLOCK), RandomKeep(p, seed) if p else None
        q, k, packed_v = (plan.pack(each, dtype) for each in (q, k, v))
        out = packed_v.new_empty(packed_v.shape)
        for chunk in plan.chunks:
            q_Bid, k_Bjd, v_Bje = scaled(chunk.heads_first(q)), chunk.heads_first(k), chunk.heads_first(packed_v)
            out_Bie = torch.empty_like(v_Bje)
            offset = _Offset(chunk, bias, ragged.sizes, q.shape[1], dtype)
            for batch, rows in chunk.blocks(q.shape[1]):
                weights = _softmax(q_Bid[batch, rows], k_Bjd[batch], offset.of(batch, rows))
                if keep is not None:
                    weights.mul_(keep.fill_(torch.empty_like(weights)))
                torch.bmm(weights, v_Bje[batch], out=out_Bie[batch, rows])
            chunk.put(out_Bie if keep is None else out_Bie.mul_(keep.scale), out)
        return plan.unpack(out, v.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias = ctx.saved_tensors
        ragged, heads, dtype = ctx.ragged, q.shape[1], compute_dtype(q)
        plan, keep = plan_of(ragged, heads, _BLOCK), RandomKeep(ctx.p, ctx.seed) if ctx.p else None
        packed_q, packed_k, packed_v, grad = (plan.pack(each, dtype) for each in (q, k, v, grad))
        if plan.real is not None:
            grad = grad * plan.real  # padding queries must not reach keys and values
        grad_q, grad_k, grad_v = (torch.empty_like(each) for each in (packed_q, packed_k, packed_v))
        grad_bias = torch.zeros_like(bias, dtype=dtype) if bias is not None and ctx.needs_input_grad[3] else None
        for chunk in plan.chunks:
            q_Bid, k_Bjd = scaled(chunk.heads_first(packed_q)), chunk.heads_first(packed_k)
            v_Bje, grad_Bie = chunk.heads_first(packed_v), chunk.heads_first(grad)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            gq, gk, gv = torch.empty_like(q_Bid), torch.empty_like(k_Bjd), torch.empty_like(v_Bje)
            offset = _Offset(chunk, bias, ragged.sizes, heads, dtype)
            for batch, rows in chunk.blocks(heads):
                weights = _softmax(q_Bid[batch, rows], k_Bjd[batch], offset.of(batch, rows))
                change = torch.bmm(grad_Bie[batch, rows], v_Bje[batch].transpose(1, 2))
                kept = weights if keep is None else keep.fill_(torch.empty_like(weights)).mul_(weights)
                accumulate(gv[batch], rows, kept.transpose(1, 2), grad_Bie[batch, rows])
                # d score = w (d w - sum_j w d w), with d w = mask * change
                change.mul_(kept)
                change.addcmul_(weights, change.sum(2, keepdim=True), value=-1)
                torch.bmm(change, k_Bjd[batch], out=gq[batch, rows])
                accumulate(gk[batch], rows, change.transpose(1, 2), q_Bid[batch, rows])
                if grad_bias is not None:
                    offset.add_gradient(change, batch, rows, grad_bias)
            chunk.put(scaled(gq), grad_q)
            chunk.put(gk, grad_k)
            chunk.put(gv, grad_v)
        grads = (plan.unpack(each, like.dtype) for each, like in ((grad_q, q), (grad_k, k), (grad_v, v)))
        return *grads, None if grad_bias is None else grad_bias.to(bias.dtype), None, None, None


class _Offset:
    """What is added to the scores of a chunk: padding of keys, and the caller's bias."""

    def __init__(
        self, chunk: Chunk, bias: Tensor | None, sizes: tuple[int, ...], heads: int, dtype: torch.dtype
    ) -> None:
        self._shape = (len(chunk.graphs), heads, chunk.length, chunk.length)
        self._pairs = self._span = None
        if bias is not None and len(chunk.graphs) == 1:
            # One graph is a slice of the bias: no index, and half the time for a large graph.
            first = sum(size * size for size in sizes[: chunk.graphs[0]])
            self._span = slice(first, first + chunk.length**2)
        elif bias is not None:
            self._pairs = pair_index(chunk.graphs, chunk.length, sizes)
        self._bias, self._dtype = bias, dtype
        self._padding = None if chunk.padding is None else chunk.padding.to(dtype)

    def of(self, batch: slice, rows: slice) -> Tensor | None:
        """(B * H, i, j) for a block, or None where nothing is added."""
        graphs, heads, length, _ = self._shape
        if self._bias is None:
            if self._padding is None:
                return None
            return self._padding.expand(graphs, heads, 1, length).reshape(-1, 1, length)
        if self._span is not None:
            block = self._bias[self._span].view(length, length, heads)
            return block[rows, :, batch].permute(2, 0, 1).to(self._dtype)
        assert self._pairs is not None
        added = self._bias[self._pairs[:, rows]].permute(0, 3, 1, 2).to(self._dtype)
        if self._padding is not None:
            added = added + self._padding
        return added.reshape(graphs * heads, -1, length)[batch]

    def add_gradient(self, change: Tensor, batch: slice, rows: slice, grad_bias: Tensor) -> None:
        """Adds the gradient of a block of scores; the gradient of padding is zero and lands anywhere."""
        graphs, heads, length, _ = self._shape
        if self._span is not None:
            grad_bias[self._span].view(length, length, heads)[rows, :, batch] += change.permute(1, 2, 0)
            return
        assert self._pairs is not None
        pairs = self._pairs[:, rows].reshape(-1)
        change = change.view(graphs, heads, -1, length).permute(0, 2, 3, 1).reshape(pairs.numel(), heads)
        grad_bias.index_add_(0, pairs, change)


def _softmax(q_Bid: Tensor, k_Bjd: Tensor, offset: Tensor | None) -> Tensor:
    keys = k_Bjd.transpose(1, 2)
    return torch.softmax(torch.bmm(q_Bid, keys) if offset is None else torch.baddbmm(offset, q_Bid, keys), dim=-1)
