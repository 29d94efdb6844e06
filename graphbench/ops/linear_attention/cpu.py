"""Linear attention in O(N H d e): per graph two small matrices, computed for a bucket of graphs at a time.

Notation: B graphs of a bucket, L rows of the longest, H heads, d and e widths, f = e + 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphbench.ops.blocks import compute_dtype
from graphbench.ops.linear_attention.denominator import away_from_zero
from graphbench.ops.segment.cpu import pack, unpack

if TYPE_CHECKING:
    from graphbench.structures import Bucket, Ragged

# Rows that one matrix product sums over.
_PIECE = 128


def linear_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, norm: str, base: str) -> Tensor:
    """See :func:`graphbench.ops.linear_attention.linear_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v.expand(-1, q.shape[1], -1) * 0
    wide = compute_dtype(v)
    # Autocast would take the products back to half precision, behind the back of the gradients written below.
    with torch.autocast(v.device.type, enabled=False):
        packed = (pack(each.to(wide), ragged) for each in (q, k, v))
        blocks = [_attend(qb, kb, vb, bucket, norm, base) for qb, kb, vb, bucket in zip(*packed, ragged.buckets)]
        return unpack(blocks, ragged).to(v.dtype)


def _attend(q: Tensor, k: Tensor, v: Tensor, bucket: Bucket, norm: str, base: str) -> Tensor:
    """(B, L, H, e) for one bucket; rows of padding hold anything finite."""
    mask_BL11 = None if bucket.mask is None else bucket.mask[:, :, None, None].to(v.dtype)
    size_B111: Tensor | float = float(bucket.length)
    if mask_BL11 is not None:
        size_B111 = mask_BL11.sum(1, keepdim=True)
        q, k, v = q * mask_BL11, k * mask_BL11, v * mask_BL11
    q, k = _normalised(q, norm), _normalised(k, norm)
    # The weights of a row sum to one, so any constant may be taken out of v. Without its mean, n v does not drown
    # q (k^T v), and k^T v - out * sum k in the gradients does not cancel.
    centre_B11e = (v.sum((1, 2), keepdim=True) / (size_B111 * v.shape[2])).detach()
    rest = v - centre_B11e
    ones_BL11 = torch.ones_like(rest[..., :1]) if mask_BL11 is None else mask_BL11.expand(-1, -1, rest.shape[2], -1)
    rest_and_one = torch.cat([rest if mask_BL11 is None else rest * mask_BL11, ones_BL11], dim=3)
    q_BHLd, k_BHLd, values_BHLf = (each.transpose(1, 2) for each in (q, k, rest_and_one))
    values_BHLf = values_BHLf.expand(-1, q.shape[2], -1, -1)
    context_BHdf = _Cross.apply(k_BHLd, values_BHLf)  # type: ignore[no-untyped-call]
    flow_BLHf = _Apply.apply(q_BHLd, context_BHdf).transpose(1, 2) / size_B111  # type: ignore[no-untyped-call]
    flow_BLHe, weight_BLH1 = flow_BLHf[..., :-1], flow_BLHf[..., -1:]
    if base == "none":
        bound_BLH1 = _lengths(q) * _lengths(k).sum(1, keepdim=True) / size_B111
        total_BLH1 = away_from_zero(weight_BLH1, bound_BLH1)
        # Where the floor holds, the weights of a row no longer sum to one, and the centre counts as often as they do.
        loopless_BLHe: Tensor = centre_B11e * (weight_BLH1 / total_BLH1) + flow_BLHe / total_BLH1
        return loopless_BLHe
    if base == "uniform":
        rest = (rest if mask_BL11 is None else rest * mask_BL11).sum(1, keepdim=True) / size_B111
    out_BLHe: Tensor = centre_B11e + (rest + flow_BLHe) / (1 + weight_BLH1)
    return out_BLHe


def _lengths(rows: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(rows, dim=3, keepdim=True)
    return length


def _normalised(rows: Tensor, norm: str) -> Tensor:
    """Rows of zeros stay zeros, with a finite gradient."""
    dims = (1, 2, 3) if norm == "frobenius" else (3,)
    length = torch.linalg.vector_norm(rows, dim=dims, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    """``a^T b`` summed over rows in pieces: one long fp32 accumulation loses digits that the gradients need."""
    whole = a.shape[2] - a.shape[2] % _PIECE
    if whole <= _PIECE:
        return a.transpose(2, 3) @ b
    pieces_a, pieces_b = (each[:, :, :whole].unflatten(2, (-1, _PIECE)) for each in (a, b))
    total = (pieces_a.transpose(3, 4) @ pieces_b).sum(2)
    result: Tensor = total + a[:, :, whole:].transpose(2, 3) @ b[:, :, whole:]
    return result


class _Cross(torch.autograd.Function):
    """``a^T b`` of (B, H, L, d) and (B, H, L, f)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return _cross(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return b @ grad.transpose(2, 3), a @ grad


class _Apply(torch.autograd.Function):
    """``a m`` of (B, H, L, d) and (B, H, d, f)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, m: Tensor) -> Tensor:
        ctx.save_for_backward(a, m)
        return a @ m

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, m = ctx.saved_tensors
        return grad @ m.transpose(2, 3), _cross(a, grad)
