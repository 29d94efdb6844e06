"""Sparse flow on tiles that fit into the cache: Newton forward, the implicit gradient backward, no flow is stored.

Notation: B graphs and heads of a bucket, i query rows, j key rows, d and e widths (README for the formulas). Tiles are
computed in place; where a buffer changes its meaning, it gets another name.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.pair_parts import Part, in_threads
from graphbench.ops.sparse_flow.cpu_gradients import Gradients, add_tile
from graphbench.ops.sparse_flow.cpu_tiles import Buffers, Operands, left_over_rows, next_mask
from graphbench.ops.sparse_flow.solver import Solution, flow_over_nu, solve
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

# Pairs (times heads) of a tile: 2 MB of fp32. Smaller ones lose more by more calls than they gain in the cache, larger
# ones more memory than softmax attention may have: every thread holds six.
_PAIRS = 1 << 19


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
    return _SparseFlow.apply(  # type: ignore[no-untyped-call]
        q, k, q_friction, k_friction, v, lam, ragged, alpha, dropout_p, seed
    )


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
    """Forward and backward in tiles; what lives between them are the inputs and two numbers per row."""

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
        *packed, packed_grad = (layout.pack(x).to(dtype) for x in (*inputs, grad))
        packed_grad = layout.zero_padding(packed_grad)  # padding queries must not reach keys and values
        grads = [torch.empty_like(x) for x in packed]

        def of_part(part: Part, buffers: Buffers) -> Tensor:
            """Writes the gradients of a part's operands and gives those of its lams, (graphs,)."""
            bucket, of_heads, keep = part.bucket, part.heads, part.keep(ctx.p, ctx.seed)
            *of_flow, v, grad_out = (x[:, of_heads] for x in (*packed, packed_grad))
            operands, v_Bje = Operands.of(bucket, of_flow, lam), bucket.heads_first(v)
            grad_Bie = bucket.heads_first(grad_out)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            packed_grads = [x[:, of_heads] for x in grads]
            of_bucket = Gradients.of([bucket.block(x) for x in packed_grads], torch.zeros_like(operands.lam_B11))
            solved_Bi = _of_part(solved, part)
            for batch, rows in part.tiles(_PAIRS):
                solution = Solution(*(field[batch, rows] for field in solved_Bi))
                tile_buffers = tuple(buffers.take(6, operands, batch, rows))
                add_tile(of_bucket, operands, v_Bje, grad_Bie, solution, ctx.alpha, batch, rows, keep, tile_buffers)
            for block, packed_gradient in zip(of_bucket, packed_grads):
                bucket.put_block(block, packed_gradient)
            return of_bucket.lam_B11.view(len(bucket.graphs), -1).sum(1)

        parts, grad_lam = Part.all_of(layout, heads, _PAIRS), torch.zeros_like(lam)
        for part, of_graphs in zip(parts, in_threads(of_part, parts, lambda: Buffers(packed_grad))):
            grad_lam[list(part.bucket.graphs)] += of_graphs
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
    dtype, heads = compute_dtype(inputs[0]), inputs[0].shape[1]
    layout = ragged.layout_for_pairs(heads, _PAIRS)
    packed = [layout.pack(x).to(dtype) for x in inputs]
    out = torch.empty_like(packed[-1])
    solved = out.new_empty(len(Solution._fields), len(out) * heads)

    def of_part(part: Part, buffers: Buffers) -> Tensor | None:
        """Writes output and solutions of a part; gives (graphs,) flows that are not 0, where they are counted."""
        bucket, of_heads, keep = part.bucket, part.heads, part.keep(p, seed)
        *of_flow, v = (x[:, of_heads] for x in packed)
        operands, v_Bje = Operands.of(bucket, of_flow, lam), bucket.heads_first(v)
        packed_out = out[:, of_heads]
        out_Bie, solved_Bi = bucket.block(packed_out), _of_part(solved, part)
        count_Bi = None if nonzero is None else v_Bje.new_empty(v_Bje.shape[:2])
        for batch, rows in part.tiles(_PAIRS):
            tile_buffers = tuple(buffers.take(4, operands, batch, rows))
            solution = _solve_tile(operands, v_Bje, alpha, batch, rows, keep, tile_buffers, out_Bie, count_Bi)
            for field, values in zip(solved_Bi, solution):
                field[batch, rows] = values
        bucket.put_block(out_Bie, packed_out)
        if count_Bi is None:
            return None
        if operands.key_mask is not None:
            count_Bi *= operands.key_mask.view(count_Bi.shape)  # rows that are padding
        return count_Bi.sum(1, dtype=torch.float64).view(len(bucket.graphs), -1).sum(1)

    parts = Part.all_of(layout, heads, _PAIRS)
    for part, counted in zip(parts, in_threads(of_part, parts, lambda: Buffers(out))):
        if nonzero is not None and counted is not None:
            nonzero[list(part.bucket.graphs)] += counted
    return layout.unpack(out).to(inputs[-1].dtype), solved


def _solve_tile(
    operands: Operands,
    v_Bje: Tensor,
    alpha: float,
    batch: slice,
    rows: slice,
    keep: RandomKeep | None,
    buffers: tuple[Tensor, ...],
    out_Bie: Tensor,
    count_Bi: Tensor | None,
) -> Solution:
    """Writes the output of a tile, and how many flows of its rows are not 0 where that is asked."""
    w, f, product, scratch = buffers
    lam_B11 = operands.lam_B11[batch]
    operands.weights_(batch, rows, w, f, scratch)
    solution, _ = solve(w, f, lam_B11, alpha, operands.key_mask, (product, scratch))
    left_over = solution.left_over()
    z = flow_over_nu(w, product, solution, solution.theta_scale(lam_B11), left_over)
    if count_Bi is not None:
        count_Bi[batch, rows] = (z > 0).sum(2).to(z.dtype)
    if keep is not None:
        z.mul_(next_mask(keep, scratch))
    torch.bmm(z, v_Bje[batch], out=out_Bie[batch, rows])
    out_Bie[batch, rows] *= solution.nu if keep is None else solution.nu * keep.scale
    for refined, row, solved_row in left_over_rows(operands, left_over, alpha, batch, rows):
        flow = solved_row.flow
        if count_Bi is not None:
            count_Bi[row] = (flow > 0).sum(1).to(z.dtype)
        if keep is not None:
            flow = flow * scratch.view(-1, flow.shape[1])[refined] * keep.scale
        out_Bie[row] = (flow @ v_Bje[row[0]].double()).to(z.dtype)
    return solution


def _of_part(solved: Tensor, part: Part) -> Solution:
    """The solution of a part's rows, (B, L, 1) each, in the memory of all of them."""
    bucket, heads = part.bucket, part.of_heads
    cells = solved[:, bucket.cells.start * heads : bucket.cells.stop * heads]
    of_bucket = cells.view(len(solved), len(bucket.graphs), heads, bucket.length, 1)
    return Solution(*of_bucket[:, :, part.heads].flatten(1, 2))
