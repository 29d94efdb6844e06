"""Newton's method for the one unknown of every row, on blocks of weights (derivation in the README).

Per row ``beta nu + sum_j w_j max(nu - c e_j, 0) = 1`` with ``w = exp(s - max s)`` and ``e = exp(t - max t)``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Scores further than this below the largest of their row count as that far below: 1 / w must not overflow.
_SPREAD = {torch.float32: 60.0, torch.float64: 600.0}
# A row that violates its equation by more than this is solved again: nu - c e has cancelled too many digits.
_VIOLATION = {torch.float32: 1e-4, torch.float64: 1e-11}
# How often at most; a round gains about as many digits as the type has.
_ROUNDS = 6
# Rows that still move are copied together once they are fewer than this share.
_SHRINK = 0.7


class Rows(NamedTuple):
    """The problems of a block of rows and their solution, each (B, i, 1).

    Attributes:
        s_max: largest score of the resistance.
        t_max: largest score of the friction.
        kappa: sum of 1 / w, so that r_j = 1 / (kappa w_j).
        total: sum of e, so that f_j = e_j / total.
        nu: the root.
    """

    s_max: Tensor
    t_max: Tensor
    kappa: Tensor
    total: Tensor
    nu: Tensor

    def friction(self, lam: Tensor) -> Tensor:
        """c, what e is multiplied by to be compared with nu."""
        return lam * self.kappa / self.total

    def beta(self, alpha: float) -> Tensor:
        """Slope of the conservation term, 0 for alpha = infinity."""
        return (1 / alpha) / self.kappa


def weigh_(s: Tensor, t: Tensor, s_max: Tensor, t_max: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
    """Turns s and t into w and e, in place; 0 for keys that are padding."""
    w, e = s.sub_(s_max).clamp_min_(-_SPREAD[s.dtype]).exp_(), t.sub_(t_max).exp_()
    return (w, e) if real is None else (w.mul_(real), e.mul_(real))


def solve(
    s: Tensor, t: Tensor, lam: Tensor, alpha: float, real: Tensor | None, scratch: tuple[Tensor, Tensor]
) -> tuple[Rows, int]:
    """Solves every row of a block.

    Args:
        s: (B, i, j) scores of the resistance; becomes w.
        t: (B, i, j) scores of the friction; becomes e.
        lam: (B, 1, 1) strength of the friction.
        alpha: penalty, infinity allowed.
        real: (B, 1, j) 1 for keys and 0 for padding (which repeats a key of its graph), or None.
        scratch: two tensors like s; the first one becomes w * e.

    Returns:
        The rows, and the largest number of steps that one of them took.
    """
    s_max, t_max = s.amax(2, keepdim=True), t.amax(2, keepdim=True)
    w, e = weigh_(s, t, s_max, t_max, real)
    first, second = scratch
    kappa, total = inverse(w, real, first).sum(2, keepdim=True), e.sum(2, keepdim=True)
    product = torch.mul(w, e, out=first)
    rows = Rows(s_max, t_max, kappa, total, kappa)
    c, beta = rows.friction(lam), rows.beta(alpha)
    nu = (1 + c * product.sum(2, keepdim=True)) / (beta + w.sum(2, keepdim=True))
    # The first step takes every flow for active. It was right where c < nu, since the largest e is 1.
    pending = (c >= nu).view(-1).nonzero().view(-1)
    flat = (each.view(-1, each.shape[2]) for each in (w, e, c, beta, torch.ones_like(nu), nu))
    steps = 1 + _descend(*flat, rows=pending, scratch=second.view(-1))
    return rows._replace(nu=nu), steps


def flow(w: Tensor, e: Tensor, product: Tensor, rows: Rows, c: Tensor, beta: Tensor) -> Tensor:
    """(B, i, j) flow divided by nu, in the memory of ``product`` = w * e."""
    result = torch.addcmul(w, product, c / rows.nu, value=-1, out=product).relu_()
    violation = (rows.nu * (beta + result.sum(2, keepdim=True)) - 1).abs_()
    ill = (violation > _VIOLATION[w.dtype]).view(-1).nonzero().view(-1)
    if len(ill):
        flat = (each.view(-1, each.shape[2]).index_select(0, ill) for each in (w, e, c, beta, rows.nu))
        result.view(-1, result.shape[2]).index_copy_(0, ill, _solve_shifted(*flat))
    return result


def inverse(w: Tensor, real: Tensor | None, out: Tensor) -> Tensor:
    """1 / w, and 0 for keys that are padding."""
    if real is None:
        return torch.reciprocal(w, out=out)
    return torch.add(w, 1 / real - 1, out=out).reciprocal_()  # padding: 1 / (0 + infinity)


def _descend(
    w: Tensor, e: Tensor, c: Tensor, beta: Tensor, right: Tensor, nu: Tensor, *, rows: Tensor, scratch: Tensor
) -> int:
    """Newton's steps for some rows, downwards until none moves; changes ``nu`` and returns their number.

    Args:
        w: (R, j) weights.
        e: (R, j) thresholds divided by c.
        c: (R, 1) positive.
        beta: (R, 1).
        right: (R, 1) right side of the equation.
        nu: (R, 1) not below the root.
        rows: numbers of the rows to move.
        scratch: at least as many numbers as w has.
    """
    if not len(rows):
        return 0
    steps = 0
    *problem, here = _take(rows, w, e, c, beta, right, nu)
    while True:
        there = _step(*problem, nu=here, scratch=scratch)
        steps += 1
        moves = there < here
        moving = int(moves.sum())
        if not moving:
            return steps
        here = torch.where(moves, there, here)
        nu.index_copy_(0, rows, here)
        if moving < _SHRINK * len(rows):
            rows, *problem, here = _take(moves.view(-1).nonzero().view(-1), rows, *problem, here)


def _take(rows: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """These rows of every tensor; the tensors themselves where that is all of them."""
    return tensors if len(rows) == len(tensors[0]) else tuple(each.index_select(0, rows) for each in tensors)


def _step(w: Tensor, e: Tensor, c: Tensor, beta: Tensor, right: Tensor, *, nu: Tensor, scratch: Tensor) -> Tensor:
    """Root of the line that touches the left side at ``nu``."""
    active = torch.lt(e, nu / c, out=scratch[: w.numel()].view_as(w)).mul_(w)
    slope = active.sum(1, keepdim=True)
    return (right + c * active.mul_(e).sum(1, keepdim=True)) / (beta + slope)


def _solve_shifted(w: Tensor, e: Tensor, c: Tensor, beta: Tensor, nu: Tensor) -> Tensor:
    """(R, j) flow divided by nu of rows whose nu is so large that no digit of the flow is left in it.

    The unknown becomes the distance from nu, in float64: the thresholds c e - nu of the flows that matter are small
    numbers, so that the distance is known to all digits. What the subtraction rounds away is a relative error of the
    frictions.
    """
    scale, dtype = nu, w.dtype
    w, e, c, beta, nu = (each.double() for each in (w, e, c, beta, nu))
    one, rows, scratch = torch.ones_like(nu), torch.arange(len(w), device=w.device), torch.empty_like(w).view(-1)
    threshold, right = c * e - nu, 1 - beta * nu
    best, least = torch.zeros_like(w), torch.full_like(nu, torch.inf)
    for _ in range(_ROUNDS):
        problem = (w, threshold, one, beta, right)
        distance = _step(*problem, nu=torch.zeros_like(nu), scratch=scratch)  # not below the root, as h is convex
        _descend(*problem, distance, rows=rows, scratch=scratch)
        threshold, right = threshold - distance, right - beta * distance
        flow = w * (-threshold).relu_()
        violation = (flow.sum(1, keepdim=True) - right).abs_()
        best = torch.where(violation < least, flow, best)
        least = torch.minimum(violation, least)
        if (least <= _VIOLATION[dtype]).all():
            break
    return (best / scale).to(dtype)
