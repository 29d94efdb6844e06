"""Newton's method for the one unknown of every row, on tiles of weights (derivation in the README).

Per row ``beta nu + sum_j w_j max(nu - theta_j, 0) = 1`` with ``w = exp(s - max s)``, ``e = exp(t - max t)`` and
``theta = theta_scale e``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# Rows with a score further than this below the largest are left over, too: 1 / w must not overflow.
_SPREAD = {torch.float32: 60.0, torch.float64: 600.0}
# nu and theta exceed the flow, which is their difference, by sum_A w nu: rows that lose more digits are left to
# :mod:`graphbench.ops.sparse_flow.refined`.
AMPLIFICATION = {torch.float32: 64.0, torch.float64: 2.0**16}
# Rows that still move are copied together once they are fewer than this fraction.
_SHRINK = 0.7


class Solution(NamedTuple):
    """The problems of a tile of rows and their solution, each (B, i, 1).

    Attributes:
        s_max: largest score of the resistance.
        t_max: largest score of the friction.
        kappa: sum of 1 / w, so that r_j = 1 / (kappa w_j).
        e_sum: sum of e, so that f_j = e_j / e_sum.
        nu: the root; -1 where the row is left to :mod:`graphbench.ops.sparse_flow.refined`.
    """

    s_max: Tensor
    t_max: Tensor
    kappa: Tensor
    e_sum: Tensor
    nu: Tensor

    def left_over(self) -> Tensor:
        """(R,) numbers of the rows, in the flattened tile, that are left to be solved in float64."""
        return (self.nu < 0).view(-1).nonzero().view(-1)

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
    w_sum = w.sum(2, keepdim=True)
    # In units of theta_scale, so that e is compared with the unknown; the first step takes every flow for active.
    one = theta_scale.reciprocal()
    x = (one + product.sum(2, keepdim=True)) / (beta + w_sum)
    rows = (tensor.view(-1, tensor.shape[2]) for tensor in (w, e, one, beta, x))
    steps = 1 + _newton_(*rows, scratch=second.view(-1))
    nu = torch.where(one.isinf(), 1 / (beta + w_sum), x * theta_scale)  # infinite: there is no friction
    _leave_over_(nu, w, e, w_sum, kappa, theta_scale)
    return unsolved._replace(nu=nu), steps


def flow_over_nu(
    w: Tensor, e: Tensor, product: Tensor, solution: Solution, theta_scale: Tensor, beta: Tensor
) -> Tensor:
    """(B, i, j) flow divided by nu, in the memory of ``product`` = w * e; 0 in rows that are left over."""
    z = torch.addcmul(w, product, theta_scale / solution.nu, value=-1, out=product).relu_()
    left_over = solution.left_over()
    if len(left_over):
        z.view(-1, z.shape[2]).index_fill_(0, left_over, 0)
    return z


def inverse(w: Tensor, key_mask: Tensor | None, out: Tensor) -> Tensor:
    """1 / w, and 0 for keys that are padding."""
    if key_mask is None:
        return torch.reciprocal(w, out=out)
    return torch.add(w, 1 / key_mask - 1, out=out).reciprocal_()  # padding: 1 / (0 + infinity)


def _newton_(w: Tensor, e: Tensor, one: Tensor, beta: Tensor, x: Tensor, *, scratch: Tensor) -> int:
    """Newton's steps downwards until no row moves; changes ``x`` and returns their number.

    Args:
        w: (R, j) weights.
        e: (R, j) thresholds; the largest of a row is 1.
        one: (R, 1) right side of the equation, in the units of the thresholds as is ``x``.
        beta: (R, 1).
        x: (R, 1) not below the root.
        scratch: at least as many numbers as w has.
    """
    pending = (x <= 1).view(-1).nonzero().view(-1)  # above all thresholds the first step was right
    if not len(pending):
        return 0
    *problem, current = _select(pending, w, e, one, beta, x)
    steps = 0
    while True:
        steps += 1
        lower = _newton_step(*problem, x=current, scratch=scratch)
        moves = lower < current
        moving = int(moves.sum())
        current = torch.minimum(current, lower)
        if moving < _SHRINK * len(pending):
            x.index_copy_(0, pending, current)
            if not moving:
                return steps
            chosen = moves.view(-1).nonzero().view(-1)
            pending, *problem, current = _select(chosen, pending, *problem, current)


def _select(rows: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """These rows of every tensor; the tensors themselves where that is all of them."""
    return tensors if len(rows) == len(tensors[0]) else tuple(x.index_select(0, rows) for x in tensors)


def _newton_step(w: Tensor, e: Tensor, one: Tensor, beta: Tensor, *, x: Tensor, scratch: Tensor) -> Tensor:
    """Root of the line that touches the left side at ``x``."""
    w_active = torch.lt(e, x, out=scratch[: w.numel()].view_as(w)).mul_(w)
    slope = w_active.sum(1, keepdim=True).add_(beta)
    return w_active.mul_(e).sum(1, keepdim=True).add_(one).div_(slope)


def _leave_over_(nu: Tensor, w: Tensor, e: Tensor, w_sum: Tensor, kappa: Tensor, theta_scale: Tensor) -> None:
    """Sets ``nu`` to -1 where it exceeds the flow by too many digits, or a score is too far from the largest."""
    most = AMPLIFICATION[w.dtype]
    nu.masked_fill_(kappa > 0.9 * math.exp(_SPREAD[w.dtype]), -1)
    doubtful = (nu * w_sum > most).view(-1).nonzero().view(-1)  # that bounds sum_A w nu, and costs no pass
    if len(doubtful):
        rows = (x.view(-1, x.shape[2]).index_select(0, doubtful) for x in (w, e, theta_scale, nu))
        w, e, theta_scale, root = rows
        near = 1 + 16 * torch.finfo(w.dtype).eps  # where rounding decides, a key counts
        too_far = (root * (w * (theta_scale * e < near * root)).sum(1, keepdim=True) > most).view(-1)
        nu.view(-1).index_fill_(0, doubtful[too_far], -1)
