"""The flows themselves and how the solver did, for figures and records; nothing here is differentiated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.ops.sparse_flow import proximal, solver
from graphbench.ops.sparse_flow.problem import FlowProblem
from graphbench.ops.sparse_flow.refined import RefinedRows
from graphbench.ops.sparse_flow.scores import query_tiles, scores

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
        zero_fraction: fraction of pairs and heads whose flow is exactly 0.
        row_sum: mean of sum_j z_j over rows and heads.
    """

    iterations: Tensor
    residual: Tensor
    zero_fraction: Tensor
    row_sum: Tensor


@torch.no_grad()
def patterns(problem: FlowProblem) -> list[Tensor]:
    """(H, n, n) flow of every graph."""
    heads = problem.q.shape[1]
    flows = [problem.lam_G.new_zeros(heads, size, size) for size in problem.ragged.sizes]
    for graph, rows, keys in query_tiles(problem.ragged, heads, _PAIRS):
        flows[graph][:, rows.start - keys.start : rows.stop - keys.start] = _flow(problem, graph, rows, keys)[0]
    return flows


@torch.no_grad()
def diagnose(problem: FlowProblem) -> FlowDiagnostics:
    """See :func:`graphbench.ops.sparse_flow.flow_diagnostics`."""
    heads, graphs, lam = problem.q.shape[1], problem.ragged.num_graphs, problem.lam_G
    zeros, total, error, norm = lam.new_zeros(4, graphs, dtype=torch.float64)
    residual, steps = torch.zeros_like(zeros), torch.zeros_like(problem.ragged.ptr[:graphs])
    for graph, rows, keys in query_tiles(problem.ragged, heads, _PAIRS):
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
    return FlowDiagnostics(
        iterations=steps,
        residual=torch.where(sizes > 0, residual, torch.nan).to(lam.dtype),
        zero_fraction=(zeros / (heads * sizes**2)).to(lam.dtype),
        row_sum=(total / (heads * sizes)).to(lam.dtype),
    )


def _flow(problem: FlowProblem, graph: int, rows: slice, keys: slice) -> tuple[Tensor, Tensor | None, int]:
    """Flow (H, i, j) of a tile, how far every row is from its equation if there is one, number of steps."""
    if problem.mode == "exact":
        return _exact(problem, graph, rows, keys)
    s = scores(problem.q[rows], problem.k[keys])
    if problem.mode == "dense":
        z = torch.softmax(s, dim=-1)
        return z, z.sum(2) - 1, 0
    t, lam = _friction_scores(problem, rows, keys), problem.lam_G[graph]
    return proximal.solve(s, t, lam, problem.alpha, problem.iters, problem.step), None, problem.iters


def _exact(problem: FlowProblem, graph: int, rows: slice, keys: slice) -> tuple[Tensor, Tensor, int]:
    s, t = scores(problem.q[rows], problem.k[keys]), _friction_scores(problem, rows, keys)
    return solved(s, t, problem.lam_G[graph], problem.alpha)


def solved(s: Tensor, t: Tensor, lam: Tensor, alpha: float) -> tuple[Tensor, Tensor, int]:
    """Flow (H, i, j) of scores, (H, i, 1) how far every row is from its equation, and Newton's steps; () lam."""
    w, f = s.contiguous().softmax(2), t.contiguous().softmax(2)
    product = torch.empty_like(w)
    lam = solver.positive(lam)
    solution, steps = solver.solve(w, f, lam.view(1, 1, 1), alpha, None, (product, torch.empty_like(w)))
    left_over = solution.left_over()
    z = solver.flow_over_nu(w, product, solution, solution.theta_scale(lam), left_over).mul_(solution.nu)
    violation = solution.beta(alpha) * solution.nu + z.sum(2, keepdim=True) - 1
    if len(left_over):
        s, t = (x.reshape(-1, x.shape[2])[left_over].double() for x in (s, t))
        refined = RefinedRows.solve(s, t, lam.double(), alpha)
        z.view(-1, z.shape[2])[left_over] = refined.flow.to(z.dtype)
        violation.view(-1, 1)[left_over] = refined.violation().to(z.dtype)
    return z, violation, steps


def _friction_scores(problem: FlowProblem, rows: slice, keys: slice) -> Tensor:
    q_friction, k_friction = problem.friction
    return scores(q_friction[rows], k_friction[keys])
