"""Sparse flow on blocks that fit into the cache: Newton forward, the implicit gradient backward, no flow is stored.

Notation: B graphs and heads of a block, i query rows, j key rows, d and e widths (README for the formulas).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphbench.ops.backend import compute_dtype
from graphbench.ops.bucket_pairs import accumulate, scaled
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.sparse_flow.solver import Rows, flow, solve, weigh_
from graphbench.structures import Bucket, Ragged

# Pairs handled at a time: 1 MB of fp32. Smaller blocks lose more to the number of calls than they gain in the cache.
_PAIRS = 1 << 18
# Denominator of rows without any flow and without a conservation term, whose numerator is 0.
_TINY = 1e-30


def sparse_flow(
    q: Tensor,
    k: Tensor,
    q_friction: Tensor,
    k_friction: Tensor,
    v: Tensor,
    ragged: Ragged,
    lam: Tensor,
    alpha: float,
    dropout_p: float,
) -> Tensor:
    """See :func:`graphbench.ops.sparse_flow.sparse_flow`; ``lam`` is (G,)."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    seed = draw_seed() if dropout_p else 0
    result: Tensor = _SparseFlow.apply(  # type: ignore[no-untyped-call]
        q, k, q_friction, k_friction, v, lam, ragged, alpha, dropout_p, seed
    )
    return result


class _SparseFlow(torch.autograd.Function):
    """Forward and backward in blocks; what lives between them are the inputs and five numbers per row."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        q_friction: Tensor,
        k_friction: Tensor,
        v: Tensor,
        lam: Tensor,
        ragged: Ragged,
        alpha: float,
        p: float,
        seed: int,
    ) -> Tensor:
        dtype, heads = compute_dtype(q), q.shape[1]
        layout, keep = ragged.layout_for_pairs(heads, _PAIRS), RandomKeep(p, seed) if p else None
        packed = [layout.pack(each).to(dtype) for each in (q, k, q_friction, k_friction, v)]
        out, memory = torch.empty_like(packed[4]), _Memory(packed[4])
        solved = packed[4].new_empty(len(Rows._fields), len(out) * heads)
        for bucket in layout.buckets:
            q_Bid, k_Bjd, qf_Bid, kf_Bjd, v_Bje = (bucket.heads_first(each) for each in packed)
            q_Bid, qf_Bid, out_Bie = scaled(q_Bid), scaled(qf_Bid), torch.empty_like(v_Bje)
            lam_B, real, rows_Bi = (
                strength(lam, bucket, heads),
                real_keys(bucket, heads, dtype),
                _rows(solved, bucket, heads),
            )
            for batch, rows in bucket.tiles(heads, _PAIRS):
                w, e, first, second = memory.take(4, q_Bid[batch, rows], k_Bjd[batch])
                torch.bmm(q_Bid[batch, rows], k_Bjd[batch].transpose(1, 2), out=w)
                torch.bmm(qf_Bid[batch, rows], kf_Bjd[batch].transpose(1, 2), out=e)
                found, _ = solve(w, e, lam_B[batch], alpha, real, (first, second))
                z = flow(w, e, first, found, found.friction(lam_B[batch]), found.beta(alpha))
                if keep is not None:
                    z.mul_(_kept(keep, second))
                torch.bmm(z, v_Bje[batch], out=out_Bie[batch, rows])
                out_Bie[batch, rows] *= found.nu if keep is None else found.nu * keep.scale
                for field, values in zip(rows_Bi, found):
                    field[batch, rows] = values
            bucket.put(out_Bie, out)
        ctx.save_for_backward(q, k, q_friction, k_friction, v, lam, solved)
        ctx.ragged, ctx.alpha, ctx.p, ctx.seed = ragged, alpha, p, seed
        return layout.unpack(out).to(v.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, lam, solved = ctx.saved_tensors
        heads, dtype, alpha = inputs[0].shape[1], compute_dtype(inputs[0]), ctx.alpha
        layout, keep = ctx.ragged.layout_for_pairs(heads, _PAIRS), RandomKeep(ctx.p, ctx.seed) if ctx.p else None
        packed = [layout.pack(each).to(dtype) for each in (*inputs, grad)]
        packed[5] = layout.zero_padding(packed[5])  # padding queries must not reach keys and values
        grads, grad_lam = [torch.empty_like(each) for each in packed[:5]], torch.zeros_like(lam)
        memory = _Memory(packed[4])
        for bucket in layout.buckets:
            q_Bid, k_Bjd, qf_Bid, kf_Bjd, v_Bje, grad_Bie = (bucket.heads_first(each) for each in packed)
            q_Bid, qf_Bid = scaled(q_Bid), scaled(qf_Bid)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            lam_B, real, rows_Bi = (
                strength(lam, bucket, heads),
                real_keys(bucket, heads, dtype),
                _rows(solved, bucket, heads),
            )
            gq, gk, gqf, gkf, gv = (torch.empty_like(each) for each in (q_Bid, k_Bjd, qf_Bid, kf_Bjd, v_Bje))
            at_lam = torch.zeros_like(lam_B)
            for batch, rows in bucket.tiles(heads, _PAIRS):
                found = Rows(*(field[batch, rows] for field in rows_Bi))
                c, beta = found.friction(lam_B[batch]), found.beta(alpha)
                w, e, z, change, active, other = memory.take(6, q_Bid[batch, rows], k_Bjd[batch])
                torch.bmm(q_Bid[batch, rows], k_Bjd[batch].transpose(1, 2), out=w)
                torch.bmm(qf_Bid[batch, rows], kf_Bjd[batch].transpose(1, 2), out=e)
                weigh_(w, e, found.s_max, found.t_max, real)
                flow(w, e, torch.mul(w, e, out=z), found, c, beta)
                torch.bmm(grad_Bie[batch, rows], v_Bje[batch].transpose(1, 2), out=change)
                kept = z
                if keep is not None:
                    change.mul_(_kept(keep, other))
                    kept = other.mul_(z)
                accumulate(gv[batch], rows, kept.transpose(1, 2), found.nu * grad_Bie[batch, rows])
                torch.sign(z, out=active).mul_(w)
                slope = beta + active.sum(2, keepdim=True)
                mean = torch.mul(active, change, out=other).sum(2, keepdim=True) / slope.clamp_(min=_TINY)
                change.sub_(mean)
                # ds / nu = z (g - mean) - r sum z (g - mean), as through any softmax of -s
                total = z.mul_(change).sum(2, keepdim=True)
                z.addcdiv_(total / found.kappa, w if real is None else w + (1 / real - 1), value=-1)
                torch.bmm(z, k_Bjd[batch], out=gq[batch, rows])
                gq[batch, rows] *= found.nu
                accumulate(gk[batch], rows, z.transpose(1, 2), found.nu * q_Bid[batch, rows])
                # - dt / c = e w (g - mean) - e sum f w (g - mean)
                total = active.mul_(change).mul_(e).sum(2, keepdim=True) / found.total
                active.addcmul_(e, total, value=-1)
                torch.bmm(active, kf_Bjd[batch], out=gqf[batch, rows])
                gqf[batch, rows] *= -c
                accumulate(gkf[batch], rows, active.transpose(1, 2), -c * qf_Bid[batch, rows])
                at_lam[batch] -= (found.kappa * total).sum(1, keepdim=True)
            grad_lam[list(bucket.graphs)] = at_lam.view(len(bucket.graphs), heads).sum(1)
            for place, block in enumerate((scaled(gq), gk, scaled(gqf), gkf, gv)):
                bucket.put(block, grads[place])
        return (
            *(layout.unpack(each).to(like.dtype) for each, like in zip(grads, inputs)),
            grad_lam,
            None,
            None,
            None,
            None,
        )


class _Memory:
    """Scratch for the blocks of one pass, so that they stay in the same, cached place."""

    def __init__(self, like: Tensor) -> None:
        self._like, self._flat = like, like.new_empty(0)

    def take(self, count: int, q_Bid: Tensor, k_Bjd: Tensor) -> Iterator[Tensor]:
        """So many (B, i, j) tensors, not initialised."""
        shape = (q_Bid.shape[0], q_Bid.shape[1], k_Bjd.shape[1])
        size = shape[0] * shape[1] * shape[2]
        if self._flat.numel() < count * size:
            self._flat = self._like.new_empty(count * size)
        return (self._flat[place * size : (place + 1) * size].view(shape) for place in range(count))


def strength(lam: Tensor, bucket: Bucket, heads: int) -> Tensor:
    """(B, 1, 1) lam of every graph and head of a bucket."""
    return lam[list(bucket.graphs)].repeat_interleave(heads).view(-1, 1, 1)


def real_keys(bucket: Bucket, heads: int, dtype: torch.dtype) -> Tensor | None:
    """(B, 1, L) 1 for keys and 0 for padding, None without padding."""
    if bucket.mask is None:
        return None
    return bucket.mask.to(dtype).repeat_interleave(heads, 0).unsqueeze(1)


def _rows(solved: Tensor, bucket: Bucket, heads: int) -> Rows:
    """The rows of a bucket, (B, L, 1) each, in the memory of all of them."""
    part = solved[:, bucket.cells.start * heads : bucket.cells.stop * heads]
    return Rows(*part.view(len(solved), -1, bucket.length, 1))


def _kept(keep: RandomKeep, out: Tensor) -> Tensor:
    """The next 1 and 0 of the stream, which is drawn on the host."""
    if out.device.type == "cpu":
        return keep.fill_(out)
    return out.copy_(keep.fill_(torch.empty(out.shape, dtype=out.dtype)))
