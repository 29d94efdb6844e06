"""The flows themselves and how the solver did, for figures and records; nothing here is differentiated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.bucket_pairs import scaled
from graphbench.ops.sparse_flow import proximal, solver
from graphbench.ops.sparse_flow.cpu import real_keys, strength
from graphbench.ops.sparse_flow.scores import row_blocks, scores
from graphbench.structures import Ragged

# Pairs (times heads) in memory at a time.
_PAIRS = 1 << 18


@dataclass(frozen=True)
class FlowDiagnostics:
    """One value per graph, (G,) each; NaN for an empty graph, where it has 0 iterations.

    Attributes:
        iterations: steps of the solver, the largest number over rows and heads; 0 in mode dense.
        residual: mode exact: largest violation of the equation of a row, |beta nu + sum_j z_j - 1|. Mode proximal:
            norm of the difference to the exact flow divided by the norm of the exact flow (by 1 where that is 0),
            over all pairs and heads. Mode dense: largest |sum_j z_j - 1|.
        zero_share: share of pairs and heads whose flow is exactly 0.
        row_sum: mean of sum_j z_j over rows and heads.
    """

    iterations: Tensor
    residual: Tensor
    zero_share: Tensor
    row_sum: Tensor


@dataclass(frozen=True)
class Problem:
    """Arguments of the operator, checked, ``lam`` as (G,)."""

    q: Tensor
    k: Tensor
    q_friction: Tensor | None
    k_friction: Tensor | None
    ragged: Ragged
    lam: Tensor
    alpha: float
    mode: str
    iters: int
    step: str


@torch.no_grad()
def patterns(problem: Problem) -> list[Tensor]:
    """(H, n, n) flow of every graph."""
    heads = problem.q.shape[1]
    found = [problem.lam.new_zeros(heads, size, size) for size in problem.ragged.sizes]
    for graph, rows, keys in row_blocks(problem.ragged, heads, _PAIRS):
        found[graph][:, rows.start - keys.start : rows.stop - keys.start] = _flow(problem, graph, rows, keys)[0]
    return found


@torch.no_grad()
def measure(problem: Problem) -> FlowDiagnostics:
    """See :func:`graphbench.ops.sparse_flow.flow_diagnostics`."""
    heads, graphs = problem.q.shape[1], problem.ragged.num_graphs
    zeros, total, error, norm = problem.lam.new_zeros(4, graphs, dtype=torch.float64)
    residual, steps = torch.zeros_like(zeros), torch.zeros_like(problem.ragged.ptr[:graphs])
    for graph, rows, keys in row_blocks(problem.ragged, heads, _PAIRS):
        z, violation, taken = _flow(problem, graph, rows, keys)
        steps[graph] = max(int(steps[graph]), taken)
        zeros[graph] += (z == 0).sum()
        total[graph] += z.sum(dtype=torch.float64)
        if violation is not None:
            residual[graph] = torch.maximum(residual[graph], violation.abs().max())
            continue
        exact, _, _ = _exact(problem, graph, rows, keys)
        error[graph] += (z - exact).square().sum()
        norm[graph] += exact.square().sum()
    if problem.mode == "proximal":
        residual = (error / torch.where(norm > 0, norm, 1)).sqrt()
    sizes = problem.ragged.size_tensor
    residual = torch.where(sizes > 0, residual, torch.nan)
    shares = (each.to(problem.lam.dtype) for each in (residual, zeros / (heads * sizes**2), total / (heads * sizes)))
    return FlowDiagnostics(steps, *shares)


@torch.no_grad()
def zero_share(problem: Problem) -> Tensor:
    """(G,) as :attr:`FlowDiagnostics.zero_share`; mode exact takes a bucket of graphs at once, as the forward pass."""
    if problem.mode != "exact":
        return measure(problem).zero_share
    if problem.q.numel() == 0:
        return problem.lam.new_full((problem.ragged.num_graphs,), torch.nan)
    assert problem.q_friction is not None, "checked by the operator"
    assert problem.k_friction is not None, "checked by the operator"
    heads, dtype = problem.q.shape[1], compute_dtype(problem.q)
    layout = problem.ragged.layout_for_pairs(heads, _PAIRS)
    packed = [layout.pack(each).to(dtype) for each in (problem.q, problem.k, problem.q_friction, problem.k_friction)]
    flows = problem.lam.new_zeros(problem.ragged.num_graphs, dtype=torch.float64)  # that are not zero
    for bucket in layout.buckets:
        q_Bid, k_Bjd, qf_Bid, kf_Bjd = (bucket.heads_first(each) for each in packed)
        lam_B, real = strength(problem.lam, bucket, heads), real_keys(bucket, heads, dtype)
        count_Bi = q_Bid.new_zeros(q_Bid.shape[:2])
        for batch, rows in bucket.tiles(heads, _PAIRS):
            w = scaled(q_Bid[batch, rows]) @ k_Bjd[batch].transpose(1, 2)
            e = scaled(qf_Bid[batch, rows]) @ kf_Bjd[batch].transpose(1, 2)
            product = torch.empty_like(w)
            found, _ = solver.solve(w, e, lam_B[batch], problem.alpha, real, (product, torch.empty_like(w)))
            z = solver.flow(w, e, product, found, found.friction(lam_B[batch]), found.beta(problem.alpha))
            count_Bi[batch, rows] = (z > 0).sum(2).to(dtype)
        if real is not None:
            count_Bi *= real.view(count_Bi.shape)  # rows that are padding
        flows[list(bucket.graphs)] = count_Bi.sum(1, dtype=torch.float64).view(-1, heads).sum(1)
    return (1 - flows / (heads * problem.ragged.size_tensor**2)).to(problem.lam.dtype)


def _flow(problem: Problem, graph: int, rows: slice, keys: slice) -> tuple[Tensor, Tensor | None, int]:
    """Flow (H, i, j) of a block of rows, how far every row is from its equation if there is one, number of steps."""
    if problem.mode == "exact":
        return _exact(problem, graph, rows, keys)
    s = scores(problem.q[rows], problem.k[keys])
    if problem.mode == "dense":
        z = torch.softmax(s, dim=-1)
        return z, z.sum(2) - 1, 0
    t = _friction(problem, rows, keys)
    return proximal.solve(s, t, problem.lam[graph], problem.alpha, problem.iters, problem.step), None, problem.iters


def _exact(problem: Problem, graph: int, rows: slice, keys: slice) -> tuple[Tensor, Tensor, int]:
    w, e = scores(problem.q[rows], problem.k[keys]).contiguous(), _friction(problem, rows, keys).contiguous()
    lam, product = problem.lam[graph].view(1, 1, 1), torch.empty_like(w)
    found, steps = solver.solve(w, e, lam, problem.alpha, None, (product, torch.empty_like(w)))
    beta = found.beta(problem.alpha)
    z = solver.flow(w, e, product, found, found.friction(lam), beta).mul_(found.nu)
    return z, beta * found.nu + z.sum(2, keepdim=True) - 1, steps


def _friction(problem: Problem, rows: slice, keys: slice) -> Tensor:
    assert problem.q_friction is not None, "checked by the operator"
    assert problem.k_friction is not None, "checked by the operator"
    return scores(problem.q_friction[rows], problem.k_friction[keys])
