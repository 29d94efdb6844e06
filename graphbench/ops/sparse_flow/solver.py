"""Newton's method for the one unknown of every row, on tiles of weights (derivation in the README).

Per row ``beta nu + sum_j w_j max(nu - theta_j, 0) = 1`` with ``w = softmax(s)``, ``f = softmax(t)`` and
``theta = theta_scale f``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# Rows with a score further than about this below the largest are left over, too: 1 / w must not overflow.
_SPREAD = {torch.float32: 60.0, torch.float64: 600.0}
# nu and theta exceed the flow, which is their difference, by sum_A w nu: rows that lose more digits are left to
# :mod:`graphbench.ops.sparse_flow.refined`.
AMPLIFICATION = {torch.float32: 64.0, torch.float64: 2.0**16}
# Rows that still move are copied together once they are fewer than this fraction.
_SHRINK = 0.7


class Solution(NamedTuple):
    """The solution of the problems of a tile of rows, each (B, i, 1).

    Attributes:
        kappa: sum of 1 / w, so that r_j = 1 / (kappa w_j); 1 where the row is left over.
        nu: the root; -1 where the row is left to :mod:`graphbench.ops.sparse_flow.refined`.
    """

    kappa: Tensor
    nu: Tensor

    def left_over(self) -> Tensor:
        """(R,) numbers of the rows, in the flattened tile, that are left to be solved in float64."""
        return (self.nu < 0).view(-1).nonzero().view(-1)

    def theta_scale(self, lam: Tensor) -> Tensor:
        """Factor of f in comparisons with nu."""
        return lam * self.kappa

    def beta(self, alpha: float) -> Tensor:
        """Slope of the conservation term, 0 for alpha = infinity."""
        return (1 / alpha) / self.kappa


def positive(lam: Tensor) -> Tensor:
    """Weights of the friction, those that are 0 so small that no digit of a flow depends on them."""
    return lam.clamp(min=torch.finfo(lam.dtype).tiny)


def solve(
    w: Tensor, f: Tensor, lam: Tensor, alpha: float, key_mask: Tensor | None, scratch: tuple[Tensor, Tensor]
) -> tuple[Solution, int]:
    """Solves every row of a tile.

    Args:
        w: (B, i, j) softmax of the scores of the resistance.
        f: (B, i, j) friction, the softmax of its scores.
        lam: (B, 1, 1) weight of the friction, positive.
        alpha: penalty, infinity allowed.
        key_mask: (B, 1, j) 1 for keys and 0 for padding, where w and f are 0, or None.
        scratch: two tensors like w; the first one becomes w * f.

    Returns:
        The solution, and the largest number of steps that a row took.
    """
    first, second = scratch
    kappa = inverse(w, key_mask, first).sum(2, keepdim=True)
    product = torch.mul(w, f, out=first)
    unsolved = Solution(kappa, kappa)
    theta_scale, beta = unsolved.theta_scale(lam), unsolved.beta(alpha)
    # In units of theta_scale, so that f is compared with the unknown; the first step takes every flow for active.
    one = theta_scale.reciprocal()
    x = (one + product.sum(2, keepdim=True)) / (beta + 1)
    steps = 1 + _newton_(*(x.view(-1, x.shape[2]) for x in (w, f, one, beta, x)), scratch=second.view(-1))
    solution = Solution(kappa, x * theta_scale)
    _leave_over_(solution, w, f, theta_scale)
    return solution, steps


def flow_over_nu(w: Tensor, product: Tensor, solution: Solution, theta_scale: Tensor, left_over: Tensor) -> Tensor:
    """(B, i, j) flow divided by nu, in the memory of ``product`` = w * f; 0 in rows that are left over."""
    z = torch.addcmul(w, product, theta_scale / solution.nu, value=-1, out=product).relu_()
    if len(left_over):
        z.view(-1, z.shape[2]).index_fill_(0, left_over, 0)
    return z


def inverse(w: Tensor, key_mask: Tensor | None, out: Tensor) -> Tensor:
    """1 / w, and 0 for keys that are padding."""
    if key_mask is None:
        return torch.reciprocal(w, out=out)
    return torch.add(w, 1 / key_mask - 1, out=out).reciprocal_()  # padding: 1 / (0 + infinity)


def _newton_(w: Tensor, f: Tensor, one: Tensor, beta: Tensor, x: Tensor, *, scratch: Tensor) -> int:
    """Newton's steps downwards until no row moves; changes ``x`` and returns their number.

    Args:
        w: (R, j) weights.
        f: (R, j) thresholds.
        one: (R, 1) right side of the equation, in the units of the thresholds as is ``x``.
        beta: (R, 1).
        x: (R, 1) not below the root.
        scratch: memory of at least as many numbers as w has.
    """
    pending, problem, current = torch.arange(len(x), device=x.device), [w, f, one, beta], x
    steps = 0
    while True:
        steps += 1
        lower = _newton_step(*problem, x=current, scratch=scratch)
        moving = (lower < current).view(-1).nonzero().view(-1)
        current = torch.minimum(current, lower)
        if len(moving) < _SHRINK * len(pending):
            x.index_copy_(0, pending, current)
            if not len(moving):
                return steps
            pending, *problem, current = (tensor.index_select(0, moving) for tensor in (pending, *problem, current))


def _newton_step(w: Tensor, f: Tensor, one: Tensor, beta: Tensor, *, x: Tensor, scratch: Tensor) -> Tensor:
    """Root of the line that touches the left side at ``x``."""
    w_active = torch.lt(f, x, out=scratch[: w.numel()].view_as(w)).mul_(w)
    slope = w_active.sum(1, keepdim=True).add_(beta)
    return w_active.mul_(f).sum(1, keepdim=True).add_(one).div_(slope)


def _leave_over_(solution: Solution, w: Tensor, f: Tensor, theta_scale: Tensor) -> None:
    """Marks the rows where nu exceeds the flow by too many digits, or 1 / w may leave the type."""
    (kappa, nu), most, deepest = solution, AMPLIFICATION[w.dtype], 0.9 * math.exp(_SPREAD[w.dtype])
    # nu bounds sum_A w nu, and costs no pass.
    doubtful = ((nu > most) | (kappa > deepest)).view(-1).nonzero().view(-1)
    if len(doubtful):
        rows = (x.view(-1, x.shape[2]).index_select(0, doubtful) for x in (w, f, theta_scale, nu, kappa))
        w, f, theta_scale, root, depth = rows
        near = 1 + 16 * torch.finfo(w.dtype).eps  # where rounding decides, a key counts
        lost = root * (w * (theta_scale * f < near * root)).sum(1, keepdim=True)
        left_over = doubtful[((lost > most) | (depth > deepest)).view(-1)]
        nu.view(-1).index_fill_(0, left_over, -1)
        kappa.view(-1).index_fill_(0, left_over, 1)
