"""Sparse flow on tiles that fit into the cache: Newton forward, the implicit gradient backward, no flow is stored.

Notation: B graphs and heads of a bucket, i query rows, j key rows, d and e widths (README for the formulas). Tiles are
computed in place; where a buffer changes its meaning, it gets another name.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype, first_order
from graphbench.ops.bucket_pairs import scaled
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.sparse_flow.cpu_gradients import Gradients, add_tile
from graphbench.ops.sparse_flow.cpu_tiles import Buffers, Operands, left_over_rows, next_mask
from graphbench.ops.sparse_flow.solver import Solution, flow_over_nu, solve
from graphbench.structures import Bucket, Ragged

# Pairs (times heads) of a tile: 1 MB of fp32. Smaller ones lose more by more calls than they gain in the cache.
_PAIRS = 1 << 18


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
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, lam, solved = ctx.saved_tensors
        dtype, heads = compute_dtype(inputs[0]), inputs[0].shape[1]
        layout = ctx.ragged.layout_for_pairs(heads, _PAIRS)
        keep = RandomKeep(ctx.p, ctx.seed) if ctx.p else None
        *packed, packed_v, packed_grad = (layout.pack(x).to(dtype) for x in (*inputs, grad))
        packed_grad = layout.zero_padding(packed_grad)  # padding queries must not reach keys and values
        grads, grad_lam = [torch.empty_like(x) for x in (*packed, packed_v)], torch.zeros_like(lam)
        buffers = Buffers(packed_v)
        for bucket in layout.buckets:
            operands, v_Bje = Operands.of(bucket, packed, lam), bucket.heads_first(packed_v)
            grad_Bie, solved_Bi = bucket.heads_first(packed_grad), _of_bucket(solved, bucket, heads)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            of_bucket = Gradients.empty(operands, v_Bje)
            for batch, rows in bucket.tiles(heads, _PAIRS):
                solution = Solution(*(field[batch, rows] for field in solved_Bi))
                tile_buffers = tuple(buffers.take(6, operands, batch, rows))
                add_tile(of_bucket, operands, v_Bje, grad_Bie, solution, ctx.alpha, batch, rows, keep, tile_buffers)
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
    out, buffers = torch.empty_like(packed_v), Buffers(packed_v)
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
                z.mul_(next_mask(keep, scratch))
            torch.bmm(z, v_Bje[batch], out=out_Bie[batch, rows])
            out_Bie[batch, rows] *= solution.nu if keep is None else solution.nu * keep.scale
            mask = None if keep is None else scratch
            for refined, row, solved_row in left_over_rows(operands, solution, alpha, batch, rows):
                flow = solved_row.flow
                if count_Bi is not None:
                    count_Bi[row] = (flow > 0).sum(1).to(dtype)
                if mask is not None and keep is not None:
                    flow = flow * mask.view(-1, flow.shape[1])[refined] * keep.scale
                out_Bie[row] = (flow @ v_Bje[row[0]].double()).to(dtype)
            for field, values in zip(solved_Bi, solution):
                field[batch, rows] = values
        bucket.put(out_Bie, out)
        if nonzero is not None and count_Bi is not None:
            if operands.key_mask is not None:
                count_Bi *= operands.key_mask.view(count_Bi.shape)  # rows that are padding
            nonzero[list(bucket.graphs)] = count_Bi.sum(1, dtype=torch.float64).view(-1, heads).sum(1)
    return layout.unpack(out).to(v.dtype), solved


def _of_bucket(solved: Tensor, bucket: Bucket, heads: int) -> Solution:
    """The solution of a bucket's rows, (B, L, 1) each, in the memory of all of them."""
    part = solved[:, bucket.cells.start * heads : bucket.cells.stop * heads]
    return Solution(*part.view(len(solved), -1, bucket.length, 1))
