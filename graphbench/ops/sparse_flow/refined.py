"""Rows whose flow is a small difference of large numbers: solved and differentiated in float64, counted from a key.

Everything is counted from the highest active threshold, the reference key: with ``D = theta - theta_ref <= 0`` and
``delta = nu - theta_ref > 0`` no flow ``w (delta - D)`` is a difference, and ``D = lam phi_ref expm1(t - t_ref)`` is as
exact as the scores (README, notation: R rows, j keys).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from graphbench.ops.sparse_flow.scores import bounded_exp


class RefinedRows(NamedTuple):
    """The solution of some rows of one graph and head, all in float64.

    Attributes:
        flow: (R, j) flow, exactly 0 outside the active set.
        active: (R, j) 1 on the active set.
        reference: (R, 1) number of the reference key.
        w: (R, j) exp(s - max s).
        r: (R, j) resistance.
        f: (R, j) friction.
        phi: (R, j) friction times kappa, so that theta = lam phi.
        excess: (R, j) (phi - phi_ref) / phi_ref, 0 above the reference.
        beta: (R, 1) slope of the conservation term.
        slope: (R, 1) of the equation of the row.
        lam: () weight of the friction.
    """

    flow: Tensor
    active: Tensor
    reference: Tensor
    w: Tensor
    r: Tensor
    f: Tensor
    phi: Tensor
    excess: Tensor
    beta: Tensor
    slope: Tensor
    lam: Tensor

    @classmethod
    def solve(cls, s: Tensor, t: Tensor, lam: Tensor, alpha: float) -> RefinedRows:
        """Rows with (R, j) scores of resistance and friction.

        Args:
            s: float64; minus infinity for keys that are padding.
            t: likewise, infinity for keys that are padding.
            lam: () weight of the friction.
            alpha: penalty, infinity allowed.
        """
        log_w = s - s.amax(1, keepdim=True)
        padding = s.isneginf()
        log_kappa = (-log_w).masked_fill(padding, -math.inf).logsumexp(1, keepdim=True)
        w, f = log_w.exp(), t.masked_fill(padding, -math.inf).softmax(1)
        phi = bounded_exp(f.log() + log_kappa)
        last, order = _last_active(w, t, f, log_kappa, lam, alpha)
        reference = order.gather(1, last.clamp(min=0))
        rank = torch.empty_like(order).scatter_(1, order, torch.arange(s.shape[1], device=s.device).expand_as(order))
        active = (rank <= last).to(w.dtype)
        excess = torch.expm1((t - t.gather(1, reference)).clamp(max=0))
        beta = (-log_kappa).exp() / alpha
        slope = torch.where(last < 0, 1.0, beta + (w * active).sum(1, keepdim=True))
        below = lam * phi.gather(1, reference) * excess
        conserved = 1 - lam / alpha * f.gather(1, reference)
        delta = (conserved + (w * active * below).sum(1, keepdim=True)) / slope
        flow = (w * active * (delta - below)).relu()
        r = (-log_w - log_kappa).masked_fill(padding, -math.inf).exp()
        return cls(flow, active, reference, w, r, f, phi, excess, beta, slope, lam)

    def violation(self) -> Tensor:
        """(R, 1) how far the rows are from their equation, beta nu + sum_j z_j = 1."""
        delta = self.flow.gather(1, self.reference) / self.w.gather(1, self.reference)
        nu = self.lam * self.phi.gather(1, self.reference) + delta
        return torch.where(self.active.any(1, keepdim=True), self.beta * nu + self.flow.sum(1, keepdim=True) - 1, 0.0)

    def gradients(self, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of s, t (R, j) and lam (R, 1) from that of the flow.

        gbar is kept in two parts, and of the two sums that give Q the one whose terms are small is taken (README).
        """
        g_ref, w = g.gather(1, self.reference), self.w * self.active
        shift = ((w * (g - g_ref)).sum(1, keepdim=True) - self.beta * g_ref) / self.slope
        c = (g - g_ref - shift) * self.active
        phi_ref, wc = self.phi.gather(1, self.reference), w * c
        big_q = phi_ref * ((self.excess * wc).sum(1, keepdim=True) + self.beta * (g_ref + shift))
        big_q = torch.where(self.active.any(1, keepdim=True), big_q, 0.0)
        ds = self.flow * c
        ds = ds - self.r * ds.sum(1, keepdim=True)
        dt = self.lam * (self.f * big_q - self.phi * wc)
        return ds, dt, -big_q


def _last_active(
    w: Tensor, t: Tensor, f: Tensor, log_kappa: Tensor, lam: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """(R, 1) how many keys are active, less one, and (R, j) the keys in rising order of friction.

    Key m is active where the equation of the row still asks for flow at its own threshold theta_m:
    ``1 - beta theta_m > sum over j before m of w_j (theta_m - theta_j)``; the sum grows by the gaps between thresholds.
    """
    rising, order = t.sort(1)
    f = f.gather(1, order)
    gap = lam * bounded_exp(f.log() + log_kappa)[:, 1:] * -torch.expm1((rising[:, :-1] - rising[:, 1:]).nan_to_num(0.0))
    left = 1 - lam / alpha * f
    left[:, 1:] -= (gap * w.gather(1, order).cumsum(1)[:, :-1]).cumsum(1)
    return ((left > 0) & rising.isfinite()).sum(1, keepdim=True) - 1, order
