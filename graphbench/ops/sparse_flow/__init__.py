"""Sparse flow: attention whose weights are the flows of a network with resistances and frictions (SFi-Former)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from graphbench.ops.backend import choose, compute_dtype, has_triton
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.sparse_flow import cpu, diagnostics, proximal, reference
from graphbench.ops.sparse_flow.diagnostics import FlowDiagnostics, Problem
from graphbench.structures import Ragged

__all__ = ["FlowDiagnostics", "flow_diagnostics", "flow_pattern", "sparse_flow", "zero_share"]

T = TypeVar("T")
MODES = ("exact", "proximal", "dense")
STEPS = ("safe", "bb")


def _gpu(*arguments: Any) -> Tensor:
    from graphbench.ops.sparse_flow import gpu  # needs Triton

    return gpu.sparse_flow(*arguments)


# The last one is what "auto" means, except for CUDA tensors where Triton is installed (see _implementation).
_IMPLEMENTATIONS = {"reference": reference.sparse_flow, "gpu": _gpu, "cpu": cpu.sparse_flow}


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
        lam: () or (G,) strength of the friction, one for all graphs or one per graph; differentiable. Must not be
            negative (not checked: its value may lie on a device).
        alpha: penalty on flow that is not conserved, positive. ``math.inf`` makes every row sum to 1.
        mode: ``"exact"`` solves the problem in finitely many steps and differentiates it implicitly; ``"proximal"``
            takes ``iters`` proximal gradient steps from the dense flow and differentiates through them, as the paper
            does; ``"dense"`` is the limit lam = 0 and alpha = infinity: softmax(s).
        iters: steps of mode ``"proximal"``.
        step: its step size: ``"safe"`` for 1 / (max r + alpha n), ``"bb"`` for Barzilai-Borwein.
        dropout_p: probability of dropping a flow; the caller passes 0 in evaluation. Reproducible from torch's global
            generator.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``, of mode ``"exact"``.

    Returns:
        (N, H, e) of the type of ``v``. Half precision is computed in float32.

    Raises:
        ValueError: shapes do not fit each other, a value is out of its range or a name is unknown.
    """
    _check(q, k, q_friction, k_friction, ragged, lam, alpha, mode, iters, step)
    if v.shape[:2] != q.shape[:2]:
        raise ValueError(f"v must be ({q.shape[0]}, {q.shape[1]}, e), received {tuple(v.shape)}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p must lie in [0, 1], received {dropout_p}")
    solve = _implementation(backend, q)
    if mode == "dense":
        return softmax_attention(q, k, v, ragged, dropout_p=dropout_p)
    assert q_friction is not None, "checked above"
    assert k_friction is not None, "checked above"
    lam = _per_graph(lam, ragged, q)
    with _full_precision(q):
        if mode == "proximal":
            return proximal.sparse_flow(q, k, q_friction, k_friction, v, ragged, lam, alpha, iters, step, dropout_p)
        return solve(q, k, q_friction, k_friction, v, ragged, lam, alpha, dropout_p)


def flow_pattern(
    q: Tensor,
    k: Tensor,
    q_friction: Tensor | None,
    k_friction: Tensor | None,
    ragged: Ragged,
    *,
    lam: Tensor,
    alpha: float = 0.1,
    mode: str = "exact",
    iters: int = 20,
    step: str = "safe",
) -> list[Tensor]:
    """The flows themselves, for figures: one (H, n, n) matrix per graph, row i for query i.

    Arguments and errors as in :func:`sparse_flow`. Memory is quadratic in the size of a graph.
    """
    return _ask(diagnostics.patterns, q, k, q_friction, k_friction, ragged, lam, alpha, mode, iters, step)


def flow_diagnostics(
    q: Tensor,
    k: Tensor,
    q_friction: Tensor | None,
    k_friction: Tensor | None,
    ragged: Ragged,
    *,
    lam: Tensor,
    alpha: float = 0.1,
    mode: str = "exact",
    iters: int = 20,
    step: str = "safe",
) -> FlowDiagnostics:
    """How the solver did and how sparse the flow is, per graph, in bounded memory and without a gradient.

    Arguments and errors as in :func:`sparse_flow`.
    """
    return _ask(diagnostics.measure, q, k, q_friction, k_friction, ragged, lam, alpha, mode, iters, step)


def zero_share(
    q: Tensor,
    k: Tensor,
    q_friction: Tensor | None,
    k_friction: Tensor | None,
    ragged: Ragged,
    *,
    lam: Tensor,
    alpha: float = 0.1,
    mode: str = "exact",
    iters: int = 20,
    step: str = "safe",
) -> Tensor:
    """(G,) share of flows that are exactly 0: that of :func:`flow_diagnostics`, cheap enough for every evaluation.

    Arguments and errors as in :func:`sparse_flow`.
    """
    return _ask(diagnostics.zero_share, q, k, q_friction, k_friction, ragged, lam, alpha, mode, iters, step)


def _ask(question: Callable[[Problem], T], *problem: Any) -> T:
    """The answer about a problem, whose parts are in the order of :class:`Problem`."""
    _check(*problem)
    given = Problem(*problem)
    with _full_precision(given.q):
        return question(dataclasses.replace(given, lam=_per_graph(given.lam, given.ragged, given.q)))


def _full_precision(q: Tensor) -> torch.autocast:
    """Scores are widened inside; autocast would cut them again."""
    return torch.autocast(q.device.type, enabled=False)


def _implementation(backend: str, q: Tensor) -> Callable[..., Tensor]:
    if backend == "auto" and has_triton(q):
        backend = "gpu"
    return choose("sparse_flow", backend, _IMPLEMENTATIONS)


def _per_graph(lam: Tensor, ragged: Ragged, q: Tensor) -> Tensor:
    """(G,) in the type that flows are computed in."""
    return lam.to(q.device, compute_dtype(q)).expand(ragged.num_graphs)


def _check(
    q: Tensor,
    k: Tensor,
    q_friction: Tensor | None,
    k_friction: Tensor | None,
    ragged: Ragged,
    lam: Tensor,
    alpha: float,
    mode: str,
    iters: int,
    step: str,
) -> None:
    if mode not in MODES:
        raise ValueError(f"mode of sparse_flow must be one of {list(MODES)}, received {mode!r}")
    if q.dim() != 3 or q.shape[0] != ragged.num_rows or k.shape != q.shape:
        raise ValueError(f"q, k must be ({ragged.num_rows}, H, d), received {tuple(q.shape)}, {tuple(k.shape)}")
    if mode == "dense":
        return
    received = [None if each is None else tuple(each.shape) for each in (q_friction, k_friction)]
    if received != [tuple(q.shape)] * 2:
        raise ValueError(f"q_friction, k_friction must be {tuple(q.shape)} as q, received {received[0]}, {received[1]}")
    if lam.shape not in ((), (ragged.num_graphs,)):
        raise ValueError(f"lam must be () or ({ragged.num_graphs},), one per graph, received {tuple(lam.shape)}")
    if not alpha > 0:
        raise ValueError(f"alpha must be positive (inf included), received {alpha}")
    if mode == "proximal":
        if step not in STEPS:
            raise ValueError(f"step of sparse_flow must be one of {list(STEPS)}, received {step!r}")
        if iters < 1:
            raise ValueError(f"iters must be at least 1, received {iters}")
        if math.isinf(alpha):
            raise ValueError("mode 'proximal' needs a finite alpha (its step is 1 / (max r + alpha n)), received inf")
