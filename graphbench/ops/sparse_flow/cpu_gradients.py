"""Gradients of sparse flow, a tile of rows at a time (README, Backward)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from graphbench.ops.bucket_pairs import accumulate
from graphbench.ops.dropout.cpu import RandomKeep
from graphbench.ops.sparse_flow.cpu_tiles import Operands, left_over_rows, next_mask
from graphbench.ops.sparse_flow.refined import RefinedRows
from graphbench.ops.sparse_flow.solver import Solution, flow_over_nu

# kappa over the squared number of keys, from which on one key may have all weight but 1 / 300.
_ALONE = 300.0


class Gradients(NamedTuple):
    """Gradients of the operands of a bucket, of its values and of lam."""

    q_Bid: Tensor
    k_Bjd: Tensor
    qf_Bid: Tensor
    kf_Bjd: Tensor
    v_Bje: Tensor
    lam_B11: Tensor

    @classmethod
    def of(cls, of_rows: Sequence[Tensor], of_lam: Tensor) -> Gradients:
        """Gradients in this memory, that of lam 0."""
        q_Bid, k_Bjd, qf_Bid, kf_Bjd, v_Bje = of_rows
        return cls(q_Bid, k_Bjd, qf_Bid, kf_Bjd, v_Bje, of_lam)

    def add_rows(
        self,
        operands: Operands,
        v_Bje: Tensor,
        row: tuple[int, Tensor],
        solved: RefinedRows,
        mask_Rj: Tensor | None,
        grad_Re: Tensor,
    ) -> None:
        """Adds what rows contribute that were left over, computed in float64.

        Args:
            operands: operands of the bucket.
            v_Bje: values of the bucket.
            row: number of the graph and head, numbers of the rows.
            solved: solution of the rows.
            mask_Rj: 1 for flows that dropout keeps, None for all.
            grad_Re: gradient of the output.
        """
        b, i = row
        g, flow = grad_Re @ v_Bje[b].double().T, solved.flow
        if mask_Rj is not None:
            g, flow = g * mask_Rj, flow * mask_Rj
        ds, dt, dlam = solved.gradients(g)
        ds, dt = operands.scale * ds, operands.scale * dt
        self.q_Bid[row] = (ds @ operands.k_Bjd[b].double()).to(v_Bje.dtype)
        self.qf_Bid[row] = (dt @ operands.kf_Bjd[b].double()).to(v_Bje.dtype)
        self.k_Bjd[b] += (ds.T @ operands.q_Bid[b, i].double()).to(v_Bje.dtype)
        self.kf_Bjd[b] += (dt.T @ operands.qf_Bid[b, i].double()).to(v_Bje.dtype)
        self.v_Bje[b] += (flow.T @ grad_Re).to(v_Bje.dtype)
        self.lam_B11[b] += dlam.sum().to(v_Bje.dtype)


def add_tile(
    grads: Gradients,
    operands: Operands,
    v_Bje: Tensor,
    grad_Bie: Tensor,
    solution: Solution,
    alpha: float,
    batch: slice,
    rows: slice,
    keep: RandomKeep | None,
    buffers: tuple[Tensor, ...],
) -> None:
    """Adds what a tile contributes to the gradients; z is the flow divided by nu, g its gradient."""
    w, f, z, g, w_active, scratch = buffers
    theta_scale, beta, scale = solution.theta_scale(operands.lam_B11[batch]), solution.beta(alpha), operands.scale
    operands.weights_(batch, rows, w, f, scratch)
    left_over_in_tile = solution.left_over()
    if len(left_over_in_tile):
        w.view(-1, w.shape[2]).index_fill_(0, left_over_in_tile, 1)  # w may be 0, and 1 / w is taken
    flow_over_nu(w, torch.mul(w, f, out=z), solution, theta_scale, left_over_in_tile)
    torch.bmm(grad_Bie[batch, rows], v_Bje[batch].transpose(1, 2), out=g)
    z_kept = z
    left_over = list(left_over_rows(operands, left_over_in_tile, alpha, batch, rows))
    masks: list[Tensor | None] = [None] * len(left_over)
    if keep is not None:
        mask = next_mask(keep, scratch)
        g.mul_(mask)
        masks = [mask.view(-1, mask.shape[2])[in_tile].double() for in_tile, _, _ in left_over]
        z_kept = mask.mul_(z)
    accumulate(grads.v_Bje[batch], rows, z_kept.transpose(1, 2), solution.nu * grad_Bie[batch, rows])

    # c = g - gbar on the active set, gbar = sum_A w g / (beta + sum_A w)
    torch.sign(z, out=w_active).mul_(w)
    slope = beta + w_active.sum(2, keepdim=True)
    # Rows without any flow and without a conservation term have a numerator of 0.
    tiny = torch.finfo(slope.dtype).tiny
    gbar = torch.mul(w_active, g, out=scratch).sum(2, keepdim=True) / slope.clamp_(min=tiny)
    c = g.sub_(gbar)

    # ds / nu = z c - r sum_k z_k c_k, as through any softmax of -s
    ds = z.mul_(c)
    zc_sum = ds.sum(2, keepdim=True)
    ds.addcdiv_(zc_sum / solution.kappa, _without_zeros(w, operands.key_mask), value=-1)
    ds_factor = scale * solution.nu
    torch.bmm(ds, operands.k_Bjd[batch], out=grads.q_Bid[batch, rows])
    grads.q_Bid[batch, rows] *= ds_factor
    accumulate(grads.k_Bjd[batch], rows, ds.transpose(1, 2), ds_factor * operands.q_Bid[batch, rows])

    # - dt / theta_scale = f (w c - sum_k f_k w_k c_k)
    if solution.kappa.amax() > _ALONE * w.shape[2] ** 2:
        # Where one key has nearly all weight, its c is a difference of nearly equal numbers, and kappa is large: f is
        # counted from its mean, and sum_A w c = beta gbar.
        f_mean = torch.mul(w_active, f, out=scratch).sum(2, keepdim=True) / slope.sub(beta).clamp_(min=tiny)
        dt = w_active.mul_(c)
        fwc_sum = torch.sub(f, f_mean, out=scratch).mul_(dt).sum(2, keepdim=True).addcmul_(f_mean * beta, gbar)
        dt.mul_(f)
    else:
        dt = w_active.mul_(c).mul_(f)
        fwc_sum = dt.sum(2, keepdim=True)
    dt.addcmul_(f, fwc_sum, value=-1)
    dt_factor = -scale * theta_scale
    torch.bmm(dt, operands.kf_Bjd[batch], out=grads.qf_Bid[batch, rows])
    grads.qf_Bid[batch, rows] *= dt_factor
    accumulate(grads.kf_Bjd[batch], rows, dt.transpose(1, 2), dt_factor * operands.qf_Bid[batch, rows])
    grads.lam_B11[batch] -= (solution.kappa * fwc_sum).sum(1, keepdim=True)

    for (_, row, refined_rows), mask_Rj in zip(left_over, masks):
        grads.add_rows(operands, v_Bje, row, refined_rows, mask_Rj, grad_Bie[row].double())


def _without_zeros(w: Tensor, key_mask: Tensor | None) -> Tensor:
    """w, and infinity for keys that are padding."""
    return w if key_mask is None else w + (1 / key_mask - 1)
