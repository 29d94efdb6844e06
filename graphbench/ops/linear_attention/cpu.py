"""Linear attention in O(N H d e): per graph two small matrices, computed for a bucket of graphs at a time.

Notation: B graphs of a bucket times H heads, L rows of the longest, d and e widths. Equations: README.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops import onednn
from graphbench.ops.backend import compute_dtype
from graphbench.ops.linear_attention.norms import FLOOR, away_from_zero, bound_of, positive, unit_rows
from graphbench.structures import Bucket, Ragged
from graphbench.structures.first_order import first_order

# Rows that one matrix product sums over.
_PIECE = 128


def linear_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, norm: str, base: str) -> Tensor:
    """See :func:`graphbench.ops.linear_attention.linear_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v.expand(-1, q.shape[1], -1) * 0
    wide = compute_dtype(v)
    # Autocast would take the products back to half precision, which the gradients written below do not expect.
    with torch.autocast(v.device.type, enabled=False):
        q, k, v_wide = q.to(wide), k.to(wide), v.to(wide)
        if norm == "l2":
            q, k = unit_rows(q), unit_rows(k)
        packed = [ragged.to_buckets(x) for x in (q, k, v_wide)]
        bounds = ragged.to_buckets(bound_of(q, k, ragged, norm)) if base == "none" else [None] * len(ragged.buckets)
        blocks = []
        for q_BLHd, k_BLHd, v_BLHe, bound_BLH, bucket in zip(*packed, bounds, ragged.buckets):
            rows = (x.transpose(1, 2) for x in (q_BLHd, k_BLHd, v_BLHe))
            bound = None if bound_BLH is None else bound_BLH.transpose(1, 2).unsqueeze(3)
            out = _Attend.apply(*rows, bound, bucket, norm == "frobenius", base)  # type: ignore[no-untyped-call]
            blocks.append(out.transpose(1, 2))
        return ragged.from_buckets(blocks).to(v.dtype)


class _Attend(torch.autograd.Function):
    """One bucket; q, k (B, H, L, d), v (B, H or 1, L, e), bound (B, H, L, 1). Padding rows hold anything finite."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bound: Tensor | None, bucket: Bucket, by_graph: bool, base: str
    ) -> Tensor:
        heads = q.shape[1]
        size: Tensor | float = float(bucket.length)
        real = None if bucket.mask is None else bucket.mask[:, None, :, None].to(v.dtype)
        if real is not None:
            size = real.sum(2, keepdim=True)
            q, k, v = q * real, k * real, v * real
        # The weights of a row sum to one, so any constant may be taken out of v. Without its mean, n v does not drown
        # q (k^T v), and k^T v - out * sum k in the gradients does not cancel.
        centre = v.sum(2, keepdim=True) / size
        rest = v - centre if real is None else (v - centre) * real
        inverse = [_inverse_norm(x, by_graph) for x in (q, k)]
        scale = _flat(inverse[0] * inverse[1] / size, heads)
        q, k, rest, centre = (_flat(x, heads) for x in (q, k, rest, centre))
        context = _cross(k, rest).mul_(scale)
        k_sum = k.sum(1, keepdim=True).mul_(scale)
        weight = q @ k_sum.transpose(1, 2)
        flow = _times(q, context, rest if base == "self" else None)
        if base == "none":
            assert bound is not None
            bound = _flat(bound, heads)
            total = away_from_zero(weight, bound)
            # Where the floor holds, the weights no longer sum to one, and the centre counts as often as they do.
            centred = centre * (weight / total)
        else:
            total, centred = weight.add_(1), centre
        out = centred + flow.div_(total)
        ctx.save_for_backward(q, k, rest, centre, flow, total, context, k_sum, bound, scale, *inverse)
        ctx.by_graph, ctx.base, ctx.size = by_graph, base, size
        ctx.shape, ctx.shared = (-1, heads), v.shape[1] < heads
        return out.unflatten(0, ctx.shape)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, rest, centre, flow, total, context, k_sum, bound, scale, *inverse = ctx.saved_tensors
        p = grad.reshape(flow.shape) / total
        grad_weight, grad_bound = (p * flow).sum(2, keepdim=True).neg_(), None
        if ctx.base == "none":
            weight = q @ k_sum.transpose(1, 2)
            common = (p * centre).sum(2, keepdim=True)
            floored, zero = weight.abs() < FLOOR * bound, weight == 0
            grad_bound = FLOOR * (common * weight / total - grad_weight) * torch.where(weight < 0, 1.0, -1.0)
            grad_bound = torch.where(floored, grad_bound, 0.0).unflatten(0, ctx.shape)
            grad_weight = torch.where(floored | zero, common, grad_weight)
        grad_context, grad_k_sum = _cross(q, p), _cross(grad_weight, q)
        # Sum of q . dq over a graph, and of k . dk as well: what a Frobenius norm takes out.
        pull = (context * grad_context).sum((1, 2)) + (k_sum * grad_k_sum).sum((1, 2))
        pull = pull.view(ctx.shape).sum(1).view(-1, 1, 1, 1)
        grad_context.mul_(scale)
        grad_k_sum.mul_(scale)
        dq = _times(p, context.mT).addcmul_(grad_weight, k_sum).unflatten(0, ctx.shape)
        dk = _times(rest, grad_context.mT, grad_k_sum).unflatten(0, ctx.shape)
        if ctx.by_graph:
            dq.addcmul_(q.unflatten(0, ctx.shape), pull * inverse[0].square(), value=-1)
            dk.addcmul_(k.unflatten(0, ctx.shape), pull * inverse[1].square(), value=-1)
        dv = _times(k, grad_context, p if ctx.base == "self" else None).unflatten(0, ctx.shape)
        if ctx.base == "uniform":
            dv += p.unflatten(0, ctx.shape).sum(2, keepdim=True) / ctx.size
        return dq, dk, dv.sum(1, keepdim=True) if ctx.shared else dv, grad_bound, None, None, None


def _times(rows: Tensor, matrix: Tensor, added: Tensor | None = None) -> Tensor:
    """``added + rows matrix``: (B * H, L, e), of (B * H, L, d) and (B * H, d, e)."""
    if rows.shape[0] == 1 and onednn.applies(rows, matrix, rows.numel() * matrix.shape[2]):
        out = onednn.product(rows[0], matrix[0].t()).unsqueeze(0)
        return out if added is None else out.add_(added)
    return rows @ matrix if added is None else torch.baddbmm(added, rows, matrix)


def _flat(x: Tensor, heads: int) -> Tensor:
    """(B * H, ...) from (B, H or 1, ...)."""
    return x.expand(-1, heads, *x.shape[2:]).flatten(0, 1)


def _inverse_norm(x: Tensor, by_graph: bool) -> Tensor:
    """(B, 1, 1, 1) what the rows of a graph are still to be multiplied by: 1 where their own norms are taken out."""
    if not by_graph:
        return x.new_ones(x.shape[0], 1, 1, 1)
    return positive(torch.linalg.vector_norm(x, dim=(1, 2, 3), keepdim=True)).reciprocal()


def _cross(a: Tensor, b: Tensor) -> Tensor:
    """``a^T b`` summed over rows in pieces: one long fp32 accumulation loses digits that the gradients need."""
    whole = a.shape[1] - a.shape[1] % _PIECE
    if whole <= _PIECE:
        return a.transpose(1, 2) @ b
    pieces_a, pieces_b = (x[:, :whole].unflatten(1, (-1, _PIECE)) for x in (a, b))
    total: Tensor = (pieces_a.transpose(2, 3) @ pieces_b).sum(1)
    return total if whole == a.shape[1] else total.baddbmm_(a[:, whole:].transpose(1, 2), b[:, whole:])
