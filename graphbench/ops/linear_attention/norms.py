"""Norms of queries and keys: rows divided by theirs, norms per graph, and denominators kept away from zero."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.segment import segment_mean, segment_repeat, segment_sum
from graphbench.structures import Ragged

NORMS = ("frobenius", "l2")
BASES = ("self", "uniform", "none")

FLOOR = 0.01
"""Least size of a row's sum of weights, as a fraction of what the sum of their absolute values can at most be."""


def away_from_zero(total: Tensor, bound: Tensor) -> Tensor:
    """``total`` with its sign and a size of at least ``FLOOR * bound``; 1 where both are 0 (see the README).

    Args:
        total: sum of weights of either sign.
        bound: largest possible sum of their absolute values, of the same shape.
    """
    kept = torch.where(total < 0, -1.0, 1.0) * torch.maximum(total.abs(), FLOOR * bound)
    return torch.where(kept == 0, 1.0, kept)


def without_cancelled(q: Tensor, k: Tensor, ragged: Ragged, norm: str) -> Tensor:
    """Queries with zeros in the rows whose weights ``q~ . k~`` cancel the base, which alone counts there.

    The sum of a row's weights, divided by n, is 1 with the base alone, and never negative. Where it is no more than
    rounding (k = -q, and heads of one channel) the division would give NaN or any number.
    """
    with torch.no_grad():
        wide = torch.promote_types(q.dtype, torch.float32)
        q_wide, k_wide = q.to(wide), k.to(wide)
        if norm == "l2":
            q_wide, k_wide = unit_rows(q_wide), unit_rows(k_wide)
        scale = inverse_norms(q_wide, ragged, norm) * inverse_norms(k_wide, ragged, norm)
        mean = segment_mean(k_wide.flatten(1), ragged).view(-1, *k.shape[1:]) * scale.to(wide).view(-1, 1, 1)
        total = 1 + (q_wide * segment_repeat(mean, ragged)).sum(2, keepdim=True)
        nothing_left = total < 4 * torch.finfo(wide).eps
    return q.masked_fill(nothing_left, 0.0)


def positive(length: Tensor) -> Tensor:
    """Lengths with 1 in the place of 0."""
    return torch.where(length > 0, length, 1.0)


def unit_rows(rows: Tensor) -> Tensor:
    """(N, H, d) rows of length one; rows of zeros stay zeros, with a finite gradient."""
    return rows / positive(_lengths(rows)).unsqueeze(2)


def inverse_norms(rows: Tensor, ragged: Ragged, norm: str) -> Tensor:
    """(G,) what the rows of a graph, after :func:`unit_rows` for ``l2``, are still to be multiplied by."""
    if norm == "l2":
        return torch.ones(ragged.num_graphs, device=rows.device)
    return positive(segment_sum(_lengths(rows).square().sum(1), ragged)).rsqrt()


def bound_of(q: Tensor, k: Tensor, ragged: Ragged, norm: str) -> Tensor:
    """(N, H) what the sizes of a row's weights can sum to, divided by n; differentiable. Arguments as above."""
    mean = segment_mean(_lengths(k), ragged)
    if norm != "l2":
        mean = mean * (inverse_norms(q, ragged, norm) * inverse_norms(k, ragged, norm)).unsqueeze(1)
    return _lengths(q) * segment_repeat(mean, ragged)


def _lengths(rows: Tensor) -> Tensor:
    """(N, H), in float32 at least."""
    wide = torch.promote_types(rows.dtype, torch.float32)
    return torch.linalg.vector_norm(rows, dim=2, dtype=wide)
