"""Sparse flow as a loop over graphs, every row solved by sorting, differentiated by plain autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.sparse_flow.scores import bounded_exp, query_tiles, scores
from graphbench.structures import Ragged


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
    blocks = [v.new_zeros(0, *v.shape[1:])]
    for graph, rows, _ in query_tiles(ragged, q.shape[1]):
        flow = solve(scores(q[rows], k[rows]), scores(q_friction[rows], k_friction[rows]), lam[graph], alpha)
        flow = torch.dropout(flow, dropout_p, dropout_p > 0)
        blocks.append(torch.einsum("hij,jhe->ihe", flow, v[rows].to(flow.dtype)).to(v.dtype))
    return torch.cat(blocks)


def solve(s: Tensor, t: Tensor, lam: Tensor, alpha: float) -> Tensor:
    """The flow z of every row (notation of the README).

    Args:
        s: (..., i, j) scores of the resistance, r = softmax(-s).
        t: (..., i, j) scores of the friction, f = softmax(t).
        lam: () weight of the friction.
        alpha: penalty on flow that is not conserved, infinity allowed.

    Returns:
        (..., i, j). Entries outside the active set are exactly 0.
    """
    log_w = s - s.amax(-1, keepdim=True)
    log_kappa = torch.logsumexp(-log_w, -1, keepdim=True)
    w, log_phi = log_w.exp(), torch.log_softmax(t, -1) + log_kappa
    with torch.no_grad():
        last = _last_active(w, t, log_phi, lam, alpha)  # -1: nothing flows
        order = t.argsort(dim=-1)
        key = order.gather(-1, last.clamp(min=0))
        places = torch.arange(s.shape[-1], device=s.device)
        rank = torch.empty_like(order).scatter_(-1, order, places.expand_as(order))
        active = (rank <= last).to(w.dtype)
    # Everything is counted from the highest active threshold: flows are sums of positive numbers. Autograd of these
    # lines, with the active set held fixed, is the implicit gradient.
    below = lam * bounded_exp(log_phi.gather(-1, key)) * torch.expm1((t - t.gather(-1, key)).clamp(max=0))
    conserved = 1 - lam / alpha * (log_phi.gather(-1, key) - log_kappa).exp()
    w_active = w * active
    slope = (-log_kappa).exp() / alpha + w_active.sum(-1, keepdim=True)
    # Rows without flow have slope 0 where alpha is infinite, too: their numbers do not matter, but NaN spreads.
    delta = (conserved + (w_active * below).sum(-1, keepdim=True)) / torch.where(last < 0, 1.0, slope)
    return (w_active * (delta - below)).relu()


def _last_active(w: Tensor, t: Tensor, log_phi: Tensor, lam: Tensor, alpha: float) -> Tensor:
    """(..., i, 1) how many keys are active, less one, in rising order of friction.

    Key m is where the equation of the row still asks for flow at its own threshold theta_m:
    ``1 - beta theta_m > sum over j before m of w_j (theta_m - theta_j)``; the sum grows by the gaps between thresholds.
    """
    t_up, order = t.sort(dim=-1)
    theta = lam * bounded_exp(log_phi.gather(-1, order))
    gap = theta[..., 1:] * -torch.expm1(t_up[..., :-1] - t_up[..., 1:])
    flow = (gap * w.gather(-1, order).cumsum(-1)[..., :-1]).cumsum(-1)
    left = 1 - lam / alpha * torch.softmax(t, -1).gather(-1, order)
    left[..., 1:] -= flow
    return (left > 0).sum(-1, keepdim=True) - 1
