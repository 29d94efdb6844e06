"""The paper's solver: proximal gradient steps from the dense flow, differentiated step by step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.sparse_flow.problem import FlowProblem
from graphbench.ops.sparse_flow.scores import query_tiles, scores
from graphbench.structures.first_order import first_order

# Pairs (times heads) whose iterations are in memory at a time; about six numbers per pair and iteration.
_PAIRS = 1 << 18


def sparse_flow(problem: FlowProblem, v: Tensor, dropout_p: float) -> Tensor:
    """See :func:`graphbench.ops.sparse_flow.sparse_flow`.

    The iterations of a tile of rows are repeated in the backward pass, one tile after the other: stored for a whole
    batch they would take gigabytes.
    """
    (q_friction, k_friction), lam = problem.friction, problem.lam_G
    options = (problem.alpha, problem.iters, problem.step, dropout_p)
    out = [v.new_zeros(0, *v.shape[1:])]
    for graph, rows, keys in query_tiles(problem.ragged, problem.q.shape[1], _PAIRS):
        inputs = (problem.q[rows], problem.k[keys], q_friction[rows], k_friction[keys], v[keys], lam[graph])
        seed = draw_seed() if dropout_p else 0
        out.append(_Tile.apply(*inputs, *options, seed))  # type: ignore[no-untyped-call]
    return torch.cat(out)


class _Tile(torch.autograd.Function):
    """Output of some rows of one graph; the backward pass runs the iterations again and differentiates them."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        ctx.save_for_backward(*arguments[:6])
        ctx.options = arguments[6:]
        return _output(*arguments)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            out = _output(*inputs, *ctx.options)
        return (*torch.autograd.grad(out, inputs, grad), *(None for _ in ctx.options))


def _output(
    q: Tensor,
    k: Tensor,
    q_friction: Tensor,
    k_friction: Tensor,
    v: Tensor,
    lam: Tensor,
    alpha: float,
    iters: int,
    step: str,
    dropout_p: float,
    seed: int,
) -> Tensor:
    z = solve(scores(q, k), scores(q_friction, k_friction), lam, alpha, iters, step)
    if dropout_p:
        keep = RandomKeep(dropout_p, seed)
        kept = keep.fill_(torch.empty(z.shape, dtype=z.dtype)).mul_(keep.scale)
        z = z * kept.to(z.device, non_blocking=True)
    return torch.einsum("hij,jhe->ihe", z, v.to(z.dtype)).to(v.dtype)


def solve(s: Tensor, t: Tensor, lam: Tensor, alpha: float, iters: int, step: str) -> Tensor:
    """The flow after ``iters`` steps ``z <- shrink(z - tau (r z + alpha (sum z - 1)), tau lam f)`` from softmax(s).

    ``shrink(y, c) = sign(y) max(|y| - c, 0)``. The step size tau of a row is ``1 / (max r + alpha n)``, or
    ``<dz, dg> / <dg, dg>`` with the last differences of flow and gradient (Barzilai-Borwein) where these are not 0.
    It is a constant to autograd.

    Args:
        s: (..., i, j) scores of the resistance.
        t: (..., i, j) scores of the friction.
        lam: () weight of the friction.
        alpha: penalty, finite.
        iters: number of steps.
        step: ``"safe"`` or ``"bb"``.
    """
    r, friction = torch.softmax(-s, dim=-1), lam * torch.softmax(t, dim=-1)
    safe = tau = 1 / (r.detach().amax(-1, keepdim=True) + alpha * s.shape[-1])
    z = torch.softmax(s, dim=-1)
    before: tuple[Tensor, Tensor] | None = None
    for _ in range(iters):
        gradient = torch.addcmul(alpha * (z.sum(-1, keepdim=True) - 1), r, z)
        if step == "bb":
            if before is not None:
                tau = _barzilai_borwein(z.detach() - before[0], gradient.detach() - before[1], safe)
            before = z.detach(), gradient.detach()
        z = shrink(z - tau * gradient, tau * friction)
    return z


def shrink(y: Tensor, threshold: Tensor) -> Tensor:
    """``sign(y) max(|y| - threshold, 0)``; the paper prints it without the sign."""
    return y - torch.clamp(y, -threshold, threshold)


def _barzilai_borwein(dz: Tensor, dg: Tensor, safe: Tensor) -> Tensor:
    inner, square = (dz * dg).sum(-1, keepdim=True), (dg * dg).sum(-1, keepdim=True)
    usable = (inner > 0) & (square > 0)
    return torch.where(usable, inner / torch.where(usable, square, 1), safe)
