"""Sparse flow on tiles that fit into the cache: Newton forward, the implicit gradient backward, no flow is stored.

Notation: B graphs and heads of a bucket, i query rows, j key rows, d and e widths (README for the formulas). Tiles are
computed in place; where a buffer changes its meaning, it gets another name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphbench.ops.backend import compute_dtype
from graphbench.ops.bucket_pairs import accumulate, scaled
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.sparse_flow.solver import Solution, exp_weights_, flow_over_nu, solve
from graphbench.structures import Bucket, Ragged

# Pairs (times heads) of a tile: 1 MB of fp32. Smaller ones lose more by more calls than they gain in the cache.
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


def counted_flow(
    q: Tensor, k: Tensor, q_friction: Tensor, k_friction: Tensor, v: Tensor, ragged: Ragged, lam: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.sparse_flow.counted_flow`: the output and (G,) flows that are not 0."""
    nonzero = lam.new_zeros(ragged.num_graphs, dtype=torch.float64)
    if q.numel() == 0 or v.numel() == 0:
        return v * 0, nonzero
    out, _ = _forward((q, k, q_friction, k_friction, v), lam, ragged, alpha, 0.0, 0, nonzero)
    return out, nonzero


class Operands(NamedTuple):
    """What the flows of a bucket follow from, heads first; queries are scaled.

    Attributes:
        q_Bid: queries of the resistance.
        k_Bjd: their keys.
        qf_Bid: queries of the friction.
        kf_Bjd: their keys.
        lam_B11: weight of the friction.
        key_mask: (B, 1, j) 1 for keys and 0 for padding, None without padding.
    """

    q_Bid: Tensor
    k_Bjd: Tensor
    qf_Bid: Tensor
    kf_Bjd: Tensor
    lam_B11: Tensor
    key_mask: Tensor | None

    @classmethod
    def of(cls, bucket: Bucket, packed: list[Tensor], lam: Tensor) -> Operands:
        """Of a bucket, from q, k, q_friction and k_friction in the padded layout and (G,) lam."""
        q_Bid, k_Bjd, qf_Bid, kf_Bjd = (bucket.heads_first(x) for x in packed)
        heads, mask = packed[0].shape[1], bucket.mask
        lam_B11 = lam[list(bucket.graphs)].repeat_interleave(heads).view(-1, 1, 1)
        key_mask = None if mask is None else mask.to(q_Bid.dtype).repeat_interleave(heads, 0).unsqueeze(1)
        return cls(scaled(q_Bid), k_Bjd, scaled(qf_Bid), kf_Bjd, lam_B11, key_mask)

    def scores_(self, batch: slice, rows: slice, s: Tensor, t: Tensor) -> None:
        """Writes the scores of a tile."""
        torch.bmm(self.q_Bid[batch, rows], self.k_Bjd[batch].transpose(1, 2), out=s)
        torch.bmm(self.qf_Bid[batch, rows], self.kf_Bjd[batch].transpose(1, 2), out=t)


class _SparseFlow(torch.autograd.Function):
    """Forward and backward in tiles; what lives between them are the inputs and five numbers per row."""

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
        inputs = (q, k, q_friction, k_friction, v)
        out, solved = _forward(inputs, lam, ragged, alpha, p, seed)
        ctx.save_for_backward(*inputs, lam, solved)
        ctx.ragged, ctx.alpha, ctx.p, ctx.seed = ragged, alpha, p, seed
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, lam, solved = ctx.saved_tensors
        dtype, heads = compute_dtype(inputs[0]), inputs[0].shape[1]
        layout = ctx.ragged.layout_for_pairs(heads, _PAIRS)
        keep = RandomKeep(ctx.p, ctx.seed) if ctx.p else None
        *packed, packed_v, packed_grad = (layout.pack(x).to(dtype) for x in (*inputs, grad))
        packed_grad = layout.zero_padding(packed_grad)  # padding queries must not reach keys and values
        grads, grad_lam = [torch.empty_like(x) for x in (*packed, packed_v)], torch.zeros_like(lam)
        buffers = _Buffers(packed_v)
        for bucket in layout.buckets:
            operands, v_Bje = Operands.of(bucket, packed, lam), bucket.heads_first(packed_v)
            grad_Bie, solved_Bi = bucket.heads_first(packed_grad), _of_bucket(solved, bucket, heads)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            of_bucket = _Gradients.empty(operands, v_Bje)
            for batch, rows in bucket.tiles(heads, _PAIRS):
                solution = Solution(*(field[batch, rows] for field in solved_Bi))
                tile_buffers = tuple(buffers.take(6, operands, batch, rows))
                _add_tile(of_bucket, operands, v_Bje, grad_Bie, solution, ctx.alpha, batch, rows, keep, tile_buffers)
            grad_lam[list(bucket.graphs)] = of_bucket.lam_B11.view(len(bucket.graphs), heads).sum(1)
            q_Bid, k_Bjd, qf_Bid, kf_Bjd, v_Bje, _ = of_bucket
            for block, packed_gradient in zip((scaled(q_Bid), k_Bjd, scaled(qf_Bid), kf_Bjd, v_Bje), grads):
                bucket.put(block, packed_gradient)
        of_inputs = (layout.unpack(x).to(like.dtype) for x, like in zip(grads, inputs))
        return *of_inputs, grad_lam, None, None, None, None


def _forward(
    inputs: tuple[Tensor, ...],
    lam: Tensor,
    ragged: Ragged,
    alpha: float,
    p: float,
    seed: int,
    nonzero: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Output, and what the backward pass needs of the rows' solutions; ``nonzero`` (G,) counts flows that are not 0."""
    q, v = inputs[0], inputs[-1]
    dtype, heads = compute_dtype(q), q.shape[1]
    layout, keep = ragged.layout_for_pairs(heads, _PAIRS), RandomKeep(p, seed) if p else None
    *packed, packed_v = (layout.pack(x).to(dtype) for x in inputs)
    out, buffers = torch.empty_like(packed_v), _Buffers(packed_v)
    solved = packed_v.new_empty(len(Solution._fields), len(out) * heads)
    for bucket in layout.buckets:
        operands, v_Bje = Operands.of(bucket, packed, lam), bucket.heads_first(packed_v)
        out_Bie, solved_Bi = torch.empty_like(v_Bje), _of_bucket(solved, bucket, heads)
        count_Bi = None if nonzero is None else v_Bje.new_empty(v_Bje.shape[:2])
        for batch, rows in bucket.tiles(heads, _PAIRS):
            lam_B11 = operands.lam_B11[batch]
            w, e, product, scratch = buffers.take(4, operands, batch, rows)
            operands.scores_(batch, rows, w, e)
            solution, _ = solve(w, e, lam_B11, alpha, operands.key_mask, (product, scratch))
            z = flow_over_nu(w, e, product, solution, solution.theta_scale(lam_B11), solution.beta(alpha))
            if count_Bi is not None:
                count_Bi[batch, rows] = (z > 0).sum(2).to(dtype)
            if keep is not None:
                z.mul_(_next_mask(keep, scratch))
            torch.bmm(z, v_Bje[batch], out=out_Bie[batch, rows])
            out_Bie[batch, rows] *= solution.nu if keep is None else solution.nu * keep.scale
            for field, values in zip(solved_Bi, solution):
                field[batch, rows] = values
        bucket.put(out_Bie, out)
        if nonzero is not None and count_Bi is not None:
            if operands.key_mask is not None:
                count_Bi *= operands.key_mask.view(count_Bi.shape)  # rows that are padding
            nonzero[list(bucket.graphs)] = count_Bi.sum(1, dtype=torch.float64).view(-1, heads).sum(1)
    return layout.unpack(out).to(v.dtype), solved


class _Gradients(NamedTuple):
    """Of the operands of a bucket, of its values and of lam."""

    q_Bid: Tensor
    k_Bjd: Tensor
    qf_Bid: Tensor
    kf_Bjd: Tensor
    v_Bje: Tensor
    lam_B11: Tensor

    @classmethod
    def empty(cls, operands: Operands, v_Bje: Tensor) -> _Gradients:
        """Not initialised but for that of lam."""
        q_Bid, k_Bjd, qf_Bid, kf_Bjd, v_Bje = (torch.empty_like(x) for x in (*operands[:4], v_Bje))
        return cls(q_Bid, k_Bjd, qf_Bid, kf_Bjd, v_Bje, torch.zeros_like(operands.lam_B11))


def _add_tile(
    grads: _Gradients,
    operands: Operands,
    v_Bje: Tensor,
    grad_Bie: Tensor,
    solution: Solution,
    alpha: float,
    batch: slice,
    rows: slice,
    keep: RandomKeep | None,
    buffers: tuple[Tensor, ...],
) -> None:
    """Adds what a tile contributes to the gradients; z is the flow divided by nu, g its gradient."""
    w, e, z, g, w_active, scratch = buffers
    theta_scale, beta = solution.theta_scale(operands.lam_B11[batch]), solution.beta(alpha)
    operands.scores_(batch, rows, w, e)
    exp_weights_(w, e, solution.s_max, solution.t_max, operands.key_mask)
    flow_over_nu(w, e, torch.mul(w, e, out=z), solution, theta_scale, beta)
    torch.bmm(grad_Bie[batch, rows], v_Bje[batch].transpose(1, 2), out=g)
    z_kept = z
    if keep is not None:
        mask = _next_mask(keep, scratch)
        g.mul_(mask)
        z_kept = mask.mul_(z)
    accumulate(grads.v_Bje[batch], rows, z_kept.transpose(1, 2), solution.nu * grad_Bie[batch, rows])

    # c = g - gbar on the active set, gbar = sum_A w g / (beta + sum_A w)
    torch.sign(z, out=w_active).mul_(w)
    slope = beta + w_active.sum(2, keepdim=True)
    gbar = torch.mul(w_active, g, out=scratch).sum(2, keepdim=True) / slope.clamp_(min=_TINY)
    c = g.sub_(gbar)

    # ds / nu = z c - r sum_k z_k c_k, as through any softmax of -s
    ds = z.mul_(c)
    zc_sum = ds.sum(2, keepdim=True)
    ds.addcdiv_(zc_sum / solution.kappa, _without_zeros(w, operands.key_mask), value=-1)
    torch.bmm(ds, operands.k_Bjd[batch], out=grads.q_Bid[batch, rows])
    grads.q_Bid[batch, rows] *= solution.nu
    accumulate(grads.k_Bjd[batch], rows, ds.transpose(1, 2), solution.nu * operands.q_Bid[batch, rows])

    # - dt / theta_scale = e (w c - sum_k f_k w_k c_k)
    dt = w_active.mul_(c).mul_(e)
    fwc_sum = dt.sum(2, keepdim=True) / solution.e_sum
    dt.addcmul_(e, fwc_sum, value=-1)
    torch.bmm(dt, operands.kf_Bjd[batch], out=grads.qf_Bid[batch, rows])
    grads.qf_Bid[batch, rows] *= -theta_scale
    accumulate(grads.kf_Bjd[batch], rows, dt.transpose(1, 2), -theta_scale * operands.qf_Bid[batch, rows])
    grads.lam_B11[batch] -= (solution.kappa * fwc_sum).sum(1, keepdim=True)


class _Buffers:
    """Scratch for the tiles of one pass, so that they stay in the same, cached place."""

    def __init__(self, like: Tensor) -> None:
        self._like, self._flat = like, like.new_empty(0)

    def take(self, count: int, operands: Operands, batch: slice, rows: slice) -> Iterator[Tensor]:
        """So many (B, i, j) tensors of the shape of a tile, not initialised."""
        shape = (batch.stop - batch.start, rows.stop - rows.start, operands.k_Bjd.shape[1])
        size = shape[0] * shape[1] * shape[2]
        if self._flat.numel() < count * size:
            self._flat = self._like.new_empty(count * size)
        return (self._flat[i * size : (i + 1) * size].view(shape) for i in range(count))


def _of_bucket(solved: Tensor, bucket: Bucket, heads: int) -> Solution:
    """The solution of a bucket's rows, (B, L, 1) each, in the memory of all of them."""
    part = solved[:, bucket.cells.start * heads : bucket.cells.stop * heads]
    return Solution(*part.view(len(solved), -1, bucket.length, 1))


def _without_zeros(w: Tensor, key_mask: Tensor | None) -> Tensor:
    """w, and infinity for keys that are padding."""
    return w if key_mask is None else w + (1 / key_mask - 1)


def _next_mask(keep: RandomKeep, out: Tensor) -> Tensor:
    """The next 1 and 0 of the stream, which is drawn on the host."""
    if out.device.type == "cpu":
        return keep.fill_(out)
    return out.copy_(keep.fill_(torch.empty(out.shape, dtype=out.dtype)))
