"""Sparse flow: attention whose weights are the flows of a network with resistances and frictions (SFi-Former)."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.library import library_op
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.sparse_flow import cpu, diagnostics, proximal, reference
from graphbench.ops.sparse_flow.diagnostics import FlowDiagnostics
from graphbench.ops.sparse_flow.problem import FlowProblem
from graphbench.structures import Ragged

__all__ = [
    "FlowDiagnostics",
    "FlowProblem",
    "counted_flow",
    "flow_diagnostics",
    "flow_pattern",
    "sparse_flow",
    "zero_fraction",
]


_IMPLEMENTATIONS = Backends(reference.sparse_flow, cpu.sparse_flow, gpu=True, loops_over_graphs=True)
_COUNTED = Backends(None, cpu.counted_flow, gpu=True)


@library_op(lambda q, k, q_friction, k_friction, v, *_, **__: v.new_empty(v.shape))
def sparse_flow(
    q: Tensor,
    k: Tensor,
    q_friction: Tensor | None,
    k_friction: Tensor | None,
    v: Tensor,
    ragged: Ragged,
    *,
    lam: Tensor,
    alpha: float = 0.1,
    mode: str = "exact",
    iters: int = 20,
    step: str = "safe",
    dropout_p: float = 0.0,
    backend: str = "auto",
) -> Tensor:
    """``out[i] = sum_j z[i, j] v[j]`` with the flow z that costs least, per head and over the nodes j of i's graph.

    Equation, for every row i (SFi-Former, Eq. 6 to 10; derivation and gradient in the README)::

        z = argmin_z  1/2 sum_j r_j z_j^2 + lam sum_j f_j |z_j| + alpha/2 (sum_j z_j - 1)^2
        r = softmax_j(-s_ij),  s = q k^T / sqrt(d)          f = softmax_j(t_ij),  t = q_friction k_friction^T / sqrt(d)

    Args:
        q: (N, H, d) queries, rows grouped by graph.
        k: (N, H, d) keys.
        q_friction: (N, H, d) queries of the friction; may be None in mode ``"dense"``.
        k_friction: (N, H, d) keys of the friction; may be None in mode ``"dense"``.
        v: (N, H, e) values.
        ragged: the partition of the rows.
        lam: () or (G,) weight of the friction, one for all graphs or one per graph; differentiable. Must not be
            negative (not checked: its value may lie on a device).
        alpha: penalty on flow that is not conserved, positive. ``math.inf`` makes every row sum to 1.
        mode: ``"exact"`` solves the problem in finitely many steps and differentiates it implicitly; ``"proximal"``
            takes ``iters`` proximal gradient steps from the dense flow and differentiates through them, as the paper
            does; ``"dense"`` is the limit lam = 0 and alpha = infinity: softmax(s).
        iters: steps of mode ``"proximal"``.
        step: step size of that mode: ``"safe"`` for 1 / (max r + alpha n), ``"bb"`` for Barzilai-Borwein.
        dropout_p: probability of dropping a flow; the caller passes 0 in evaluation. Reproducible from torch's global
            generator.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``, of mode ``"exact"``.

    Returns:
        (N, H, e) of the type of ``v``. Half precision is computed in float32.

    Raises:
        ValueError: shapes do not fit each other, a value is out of its range or a name is unknown.
    """
    problem = FlowProblem(q, k, q_friction, k_friction, ragged, lam, alpha, mode, iters, step)
    if v.shape[:2] != q.shape[:2]:
        raise ValueError(f"v must be ({q.shape[0]}, {q.shape[1]}, e), received {tuple(v.shape)}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p must lie in [0, 1], received {dropout_p}")
    solve = _IMPLEMENTATIONS.choose(backend, q)
    if mode == "dense":
        return softmax_attention(q, k, v, ragged, dropout_p=dropout_p)
    with problem.full_precision():
        if mode == "proximal":
            return proximal.sparse_flow(problem, v, dropout_p)
        return solve(q, k, *problem.friction, v, ragged, problem.lam_G, alpha, dropout_p)


def flow_pattern(problem: FlowProblem) -> list[Tensor]:
    """The flows themselves, for figures: one (H, n, n) matrix per graph, row i for query i.

    Memory is quadratic in the size of a graph.
    """
    with problem.full_precision():
        return diagnostics.patterns(problem)


def flow_diagnostics(problem: FlowProblem) -> FlowDiagnostics:
    """State of the solver and sparsity of the flow, per graph, in bounded memory and without a gradient."""
    with problem.full_precision():
        return diagnostics.diagnose(problem)


@torch.no_grad()
def counted_flow(problem: FlowProblem, v: Tensor, *, backend: str = "auto") -> tuple[Tensor, Tensor]:
    """:func:`sparse_flow` without dropout and gradient, and how many of its flows are 0, counted on the way.

    Args:
        problem: problem that the flows solve.
        v: (N, H, e) values.
        backend: ``"auto"``, ``"gpu"`` or ``"cpu"``, of mode ``"exact"``.

    Returns:
        (N, H, e) output and (G,) fraction of flows that are exactly 0, as in :func:`flow_diagnostics`.
    """
    if problem.mode != "exact":
        return sparse_flow(v=v, **problem.arguments()), flow_diagnostics(problem).zero_fraction
    solve = _COUNTED.choose(backend, problem.q)
    ragged, lam = problem.ragged, problem.lam_G
    with problem.full_precision():
        out, nonzero = solve(problem.q, problem.k, *problem.friction, v, ragged, lam, problem.alpha)
    pairs = problem.q.shape[1] * ragged.size_tensor**2
    return out, (1 - nonzero / pairs).to(lam.dtype)


def zero_fraction(problem: FlowProblem) -> Tensor:
    """(G,) fraction of flows that are exactly 0, as in :func:`flow_diagnostics`, where the output is not needed."""
    return counted_flow(problem, problem.q[:, :, :1])[1]
