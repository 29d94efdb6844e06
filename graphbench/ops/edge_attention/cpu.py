"""Attention along edges without a message per edge: weighted sums are ``bag_sum`` of one head at a time.

Notation: N nodes, M edges, H heads, d width of queries and keys, f width of values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.segment import bag_sum
from graphbench.structures.adjacency import Adjacency, Csr
from graphbench.structures.first_order import first_order


def edge_attention(
    adj: Adjacency, q: Tensor, k: Tensor, v: Tensor, e: Tensor | None, clamp: float | None, eps: float
) -> Tensor:
    """See :func:`graphbench.ops.edge_attention.edge_attention`."""
    wide = compute_dtype(v)
    tensors = [None if x is None else x.to(wide) for x in (q, k, v, e)]
    out: Tensor = _EdgeAttention.apply(adj, *tensors, clamp, eps)  # type: ignore[no-untyped-call]
    return out.to(v.dtype)


class _EdgeAttention(torch.autograd.Function):
    """``out = T / D``, ``T = sum w v``, ``D = eps + sum w``: ``d out / d w = (v - out) / D`` (README)."""

    @staticmethod
    def forward(
        ctx: Any,
        adj: Adjacency,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        e: Tensor | None,
        clamp: float | None,
        eps: float,
    ) -> Tensor:
        score_MH = _products(adj, q, k, e).sum(2).mul_(q.shape[2] ** -0.5)
        if clamp is None:
            weight_MH = _shifted(adj, score_MH).exp_()
        else:
            weight_MH = score_MH.clamp(-clamp, clamp).exp_()
        total_NH = _sums(weight_MH, adj.by_target) + eps
        total_NH.masked_fill_(total_NH == 0, 1)  # a node without edges: 0 / 1
        out_NHf = weighted(v, weight_MH, adj.by_target).div_(total_NH.unsqueeze(2))
        inside_MH = None if clamp is None else score_MH.abs_().le(clamp)
        ctx.adj = adj
        ctx.save_for_backward(q, k, v, e, weight_MH, inside_MH, out_NHf, total_NH)
        return out_NHf

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, e, weight_MH, inside_MH, out_NHf, total_NH = ctx.saved_tensors
        adj: Adjacency = ctx.adj
        grad_sum_NHf = grad / total_NH.unsqueeze(2)  # of sum w v
        grad_v = weighted(grad_sum_NHf, weight_MH, adj.by_source)
        # d/d score = w (v_s - out_t) . (d/d sum)_t, 0 where the clamp acts
        v_minus_out_MHf = v.index_select(0, adj.source).sub_(out_NHf.index_select(0, adj.target))
        grad_score_MH = v_minus_out_MHf.mul_(grad_sum_NHf.index_select(0, adj.target)).sum(2)
        grad_score_MH.mul_(weight_MH).mul_(q.shape[2] ** -0.5)
        if inside_MH is not None:
            grad_score_MH.mul_(inside_MH)
        if e is None:
            grad_q, grad_k = weighted(k, grad_score_MH, adj.by_target), weighted(q, grad_score_MH, adj.by_source)
            return None, grad_q, grad_k, grad_v, None, None, None
        scaled_MHd = e * grad_score_MH.unsqueeze(2)
        grad_q = _sums(scaled_MHd * k.index_select(0, adj.source), adj.by_target)
        grad_k = _sums(scaled_MHd.mul_(q.index_select(0, adj.target)), adj.by_source)
        grad_e = _products(adj, q, k, None).mul_(grad_score_MH.unsqueeze(2)) if ctx.needs_input_grad[4] else None
        return None, grad_q, grad_k, grad_v, grad_e, None, None


def _products(adj: Adjacency, q: Tensor, k: Tensor, e: Tensor | None) -> Tensor:
    """(M, H, d), a new tensor."""
    products = k.index_select(0, adj.source).mul_(q.index_select(0, adj.target))
    return products if e is None else products.mul_(e)


def _shifted(adj: Adjacency, score_MH: Tensor) -> Tensor:
    """Scores minus the largest of their target."""
    index = adj.target.unsqueeze(1).expand_as(score_MH)
    top_NH = score_MH.new_full((adj.num_nodes, score_MH.shape[1]), -torch.inf)
    top_NH.scatter_reduce_(0, index, score_MH, "amax")
    return score_MH.sub_(top_NH.index_select(0, adj.target))


def _sums(rows: Tensor, lists: Csr) -> Tensor:
    """(N, ...) sums of the rows (M, ...) of every node's edges."""
    shape = (lists.ptr.numel() - 1, *rows.shape[1:])
    if rows.numel() == 0:
        return rows.new_zeros(shape)
    return bag_sum(rows.reshape(rows.shape[0], -1), lists.entry, lists.ptr).view(shape)


def weighted(rows: Tensor, weight_MH: Tensor, lists: Csr) -> Tensor:
    """(N, H, f) sums over every node's edges of weight times the row at the other end."""
    if rows.numel() == 0 or weight_MH.numel() == 0:
        return torch.zeros_like(rows)
    weight_HM = weight_MH.index_select(0, lists.entry).t().contiguous()
    rows_HNf = rows.transpose(0, 1).contiguous()
    heads = [bag_sum(rows_Nf, lists.other, lists.ptr, weight_M) for rows_Nf, weight_M in zip(rows_HNf, weight_HM)]
    return torch.stack(heads, dim=1)
