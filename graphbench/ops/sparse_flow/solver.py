"""Newton's method for the one unknown of every row, on tiles of weights (derivation in the README).

Per row ``beta nu + sum_j w_j max(nu - theta_j, 0) = 1`` with ``w = exp(s - max s)``, ``e = exp(t - max t)`` and
``theta = theta_scale e``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Scores further than this below the largest of their row count as that far below: 1 / w must not overflow.
_SPREAD = {torch.float32: 60.0, torch.float64: 600.0}
# A row that violates its equation by more than this is solved again: nu - theta has cancelled too many digits.
_VIOLATION = {torch.float32: 1e-4, torch.float64: 1e-11}
# How often at most; a round gains about as many digits as the type has.
_ROUNDS = 6
# Rows that still move are copied together once they are fewer than this fraction.
_SHRINK = 0.7


class Solution(NamedTuple):
    """The problems of a tile of rows and their solution, each (B, i, 1).

    Attributes:
        s_max: largest score of the resistance.
        t_max: largest score of the friction.
        kappa: sum of 1 / w, so that r_j = 1 / (kappa w_j).
        e_sum: sum of e, so that f_j = e_j / e_sum.
        nu: the root.
    """

    s_max: Tensor
    t_max: Tensor
    kappa: Tensor
    e_sum: Tensor
    nu: Tensor

    def theta_scale(self, lam: Tensor) -> Tensor:
        """What e is multiplied by to be compared with nu."""
        return lam * self.kappa / self.e_sum

    def beta(self, alpha: float) -> Tensor:
        """Slope of the conservation term, 0 for alpha = infinity."""
        return (1 / alpha) / self.kappa


def exp_weights_(s: Tensor, t: Tensor, s_max: Tensor, t_max: Tensor, key_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Turns s and t into w and e, in place; 0 for keys that are padding."""
    w, e = s.sub_(s_max).clamp_min_(-_SPREAD[s.dtype]).exp_(), t.sub_(t_max).exp_()
    return (w, e) if key_mask is None else (w.mul_(key_mask), e.mul_(key_mask))


def solve(
    s: Tensor, t: Tensor, lam: Tensor, alpha: float, key_mask: Tensor | None, scratch: tuple[Tensor, Tensor]
) -> tuple[Solution, int]:
    """Solves every row of a tile.

    Args:
        s: (B, i, j) scores of the resistance; becomes w.
        t: (B, i, j) scores of the friction; becomes e.
        lam: (B, 1, 1) weight of the friction.
        alpha: penalty, infinity allowed.
        key_mask: (B, 1, j) 1 for keys and 0 for padding (which repeats a key of its graph), or None.
        scratch: two tensors like s; the first one becomes w * e.

    Returns:
        The solution, and the largest number of steps that a row took.
    """
    s_max, t_max = s.amax(2, keepdim=True), t.amax(2, keepdim=True)
    w, e = exp_weights_(s, t, s_max, t_max, key_mask)
    first, second = scratch
    kappa, e_sum = inverse(w, key_mask, first).sum(2, keepdim=True), e.sum(2, keepdim=True)
    product = torch.mul(w, e, out=first)
    unsolved = Solution(s_max, t_max, kappa, e_sum, kappa)
    theta_scale, beta = unsolved.theta_scale(lam), unsolved.beta(alpha)
    nu = (1 + theta_scale * product.sum(2, keepdim=True)) / (beta + w.sum(2, keepdim=True))
    # The first step takes every flow for active. It was right where theta_scale < nu, since the largest e is 1.
    pending = (theta_scale >= nu).view(-1).nonzero().view(-1)
    rows = (x.view(-1, x.shape[2]) for x in (w, e, theta_scale, beta, torch.ones_like(nu), nu))
    steps = 1 + _newton_(*rows, pending=pending, scratch=second.view(-1))
    return unsolved._replace(nu=nu), steps


def flow_over_nu(
    w: Tensor, e: Tensor, product: Tensor, solution: Solution, theta_scale: Tensor, beta: Tensor
) -> Tensor:
    """(B, i, j) flow divided by nu, in the memory of ``product`` = w * e."""
    nu = solution.nu
    z = torch.addcmul(w, product, theta_scale / nu, value=-1, out=product).relu_()
    violation = (nu * (beta + z.sum(2, keepdim=True)) - 1).abs_()
    violated = (violation > _VIOLATION[w.dtype]).view(-1).nonzero().view(-1)
    if len(violated):
        rows = (x.view(-1, x.shape[2]).index_select(0, violated) for x in (w, e, theta_scale, beta, nu))
        z.view(-1, z.shape[2]).index_copy_(0, violated, _solve_shifted(*rows))
    return z


def inverse(w: Tensor, key_mask: Tensor | None, out: Tensor) -> Tensor:
    """1 / w, and 0 for keys that are padding."""
    if key_mask is None:
        return torch.reciprocal(w, out=out)
    return torch.add(w, 1 / key_mask - 1, out=out).reciprocal_()  # padding: 1 / (0 + infinity)


def _newton_(
    w: Tensor,
    e: Tensor,
    theta_scale: Tensor,
    beta: Tensor,
    right: Tensor,
    nu: Tensor,
    *,
    pending: Tensor,
    scratch: Tensor,
) -> int:
    """Newton's steps for some rows, downwards until none moves; changes ``nu`` and returns their number.

    Args:
        w: (R, j) weights.
        e: (R, j) thresholds divided by theta_scale.
        theta_scale: (R, 1) positive.
        beta: (R, 1).
        right: (R, 1) right side of the equation.
        nu: (R, 1) not below the root.
        pending: numbers of the rows to move.
        scratch: at least as many numbers as w has.
    """
    if not len(pending):
        return 0
    steps = 0
    *problem, current = _select(pending, w, e, theta_scale, beta, right, nu)
    while True:
        lower = _newton_step(*problem, nu=current, scratch=scratch)
        steps += 1
        moves = lower < current
        moving = int(moves.sum())
        if not moving:
            return steps
        current = torch.where(moves, lower, current)
        nu.index_copy_(0, pending, current)
        if moving < _SHRINK * len(pending):
            pending, *problem, current = _select(moves.view(-1).nonzero().view(-1), pending, *problem, current)


def _select(rows: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """These rows of every tensor; the tensors themselves where that is all of them."""
    return tensors if len(rows) == len(tensors[0]) else tuple(x.index_select(0, rows) for x in tensors)


def _newton_step(
    w: Tensor, e: Tensor, theta_scale: Tensor, beta: Tensor, right: Tensor, *, nu: Tensor, scratch: Tensor
) -> Tensor:
    """Root of the line that touches the left side at ``nu``."""
    w_active = torch.lt(e, nu / theta_scale, out=scratch[: w.numel()].view_as(w)).mul_(w)
    slope = w_active.sum(1, keepdim=True)
    return (right + theta_scale * w_active.mul_(e).sum(1, keepdim=True)) / (beta + slope)


def _solve_shifted(w: Tensor, e: Tensor, theta_scale: Tensor, beta: Tensor, nu: Tensor) -> Tensor:
    """(R, j) flow divided by nu of rows whose nu is so large that no digit of the flow is left in it.

    The unknown becomes the distance from nu, in float64: the thresholds theta - nu of the flows that matter are small
    numbers, so that the distance is known to all digits. What the subtraction rounds away is a relative error of the
    frictions.
    """
    divisor, dtype = nu, w.dtype
    w, e, theta_scale, beta, nu = (x.double() for x in (w, e, theta_scale, beta, nu))
    one, every_row, scratch = torch.ones_like(nu), torch.arange(len(w), device=w.device), torch.empty_like(w).view(-1)
    threshold, right = theta_scale * e - nu, 1 - beta * nu
    best, least = torch.zeros_like(w), torch.full_like(nu, torch.inf)
    for _ in range(_ROUNDS):
        problem = (w, threshold, one, beta, right)
        distance = _newton_step(*problem, nu=torch.zeros_like(nu), scratch=scratch)  # not below the root: h is convex
        _newton_(*problem, distance, pending=every_row, scratch=scratch)
        threshold, right = threshold - distance, right - beta * distance
        z = w * (-threshold).relu_()
        violation = (z.sum(1, keepdim=True) - right).abs_()
        best = torch.where(violation < least, z, best)
        least = torch.minimum(violation, least)
        if (least <= _VIOLATION[dtype]).all():
            break
    return (best / divisor).to(dtype)
