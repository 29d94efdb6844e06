"""Sparse flow as a loop over graphs, every row solved by sorting, differentiated by plain autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.sparse_flow.scores import query_tiles, scores
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
    # z is the same for every multiple of w. This one does not overflow, and 1 / w only for scores 80 apart (float32).
    w = torch.softmax(s, dim=-1)
    kappa = (1 / w).sum(-1, keepdim=True)
    theta = lam * kappa * torch.softmax(t, dim=-1)
    beta = (1 / alpha) / kappa  # this way round infinity has a gradient
    with torch.no_grad():
        # j is active where the left side of the equation for nu is still below 1 at nu = theta_j.
        order = theta.argsort(dim=-1)
        w_up, theta_up = w.gather(-1, order), theta.gather(-1, order)
        left_side = theta_up * (beta + w_up.cumsum(-1)) - (w_up * theta_up).cumsum(-1)
        active = torch.empty_like(w).scatter_(-1, order, (left_side < 1).to(w.dtype))
    w_active = w * active
    # Autograd of this line, with the active set held fixed, is the implicit gradient.
    nu = (1 + (w_active * theta).sum(-1, keepdim=True)) / (beta + w_active.sum(-1, keepdim=True))
    return (w_active * (nu - theta)).relu()
