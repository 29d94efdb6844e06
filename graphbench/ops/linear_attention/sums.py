"""Linear attention of one graph whose rows are never in memory together: sums over all rows first, then row by row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.ops.linear_attention.norms import BASES, NORMS, away_from_zero, positive, unit_rows


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over some rows of a graph, from which the output of every row follows; those of disjoint sets add up.

    Attributes:
        count: rows.
        q_square: () float64, sum of all squares of q (frobenius; not used with l2).
        k_square: () the same of k.
        kv: (H, d, e) float64, ``k^T v``.
        k: (H, d) float64, sum of k (of k~ with l2).
        k_length: (H,) float64, sum of the lengths of the rows of k (of k~ with l2).
        v: (H or 1, e) float64, sum of v.
    """

    count: int
    q_square: Tensor
    k_square: Tensor
    kv: Tensor
    k: Tensor
    k_length: Tensor
    v: Tensor

    def __add__(self, other: Sums) -> Sums:
        """The sums over both sets of rows."""
        return Sums(
            self.count + other.count,
            self.q_square + other.q_square,
            self.k_square + other.k_square,
            self.kv + other.kv,
            self.k + other.k,
            self.k_length + other.k_length,
            self.v + other.v,
        )


def linear_attention_sums(q: Tensor, k: Tensor, v: Tensor, *, norm: str = "frobenius") -> Sums:
    """The sums over some rows; shapes as in :func:`graphbench.ops.linear_attention.linear_attention`.

    Raises:
        ValueError: ``norm`` is unknown.
    """
    q, k, v = q.double(), k.double(), v.double()
    if _by_rows(norm):
        k = unit_rows(k)
    return Sums(
        count=q.shape[0],
        q_square=q.square().sum(),
        k_square=k.square().sum(),
        kv=torch.einsum("nhd,nhe->hde", k, v.expand(-1, k.shape[1], -1)),
        k=k.sum(0),
        k_length=torch.linalg.vector_norm(k, dim=2).sum(0),
        v=v.sum(0),
    )


def linear_attention_of_sums(
    q: Tensor, v: Tensor, sums: Sums, *, norm: str = "frobenius", base: str = "self"
) -> Tensor:
    """Output of some rows of a graph.

    Args:
        q: (R, H, d) queries of these rows.
        v: (R, H, e) their values, or (R, 1, e) shared by all heads.
        sums: sums over all rows of the graph.
        norm: norm that the sums were made with.
        base: base added to the weights, see :func:`graphbench.ops.linear_attention.linear_attention`.

    Returns:
        (R, H, e) of the type of ``v``: these rows of ``linear_attention`` over the whole graph.

    Raises:
        ValueError: ``norm`` or ``base`` is unknown.
    """
    if base not in BASES:
        raise ValueError(f"base must be one of {BASES}, received {base!r}")
    wide = torch.promote_types(v.dtype, torch.float32)
    if _by_rows(norm):
        q, length = unit_rows(q), sums.k_square.new_ones(())
    else:
        length = positive(sums.q_square.sqrt()) * positive(sums.k_square.sqrt())
    scale = 1 / (length * sums.count)
    # As in cpu.py: a constant taken out of v, here its mean, keeps n v from drowning the rest; no autocast.
    centre = sums.v / sums.count
    context = ((sums.kv - sums.k.unsqueeze(2) * centre.unsqueeze(1)) * scale).to(wide)
    k_sum, centre = (sums.k * scale).to(wide), centre.to(wide)
    with torch.autocast(v.device.type, enabled=False):
        q = q.to(wide)
        weight = torch.einsum("nhd,hd->nh", q, k_sum).unsqueeze(2)
        flow = torch.einsum("nhd,hde->nhe", q, context)
        if base == "none":
            bound = torch.linalg.vector_norm(q, dim=2, keepdim=True) * (sums.k_length * scale).to(wide).unsqueeze(1)
            total = away_from_zero(weight, bound)
            out = centre * (weight / total) + flow / total
        else:
            rest = v.to(wide) - centre if base == "self" else 0.0  # the mean of v - centre is zero
            cancelled = 1 + weight < 4 * torch.finfo(wide).eps  # see norms.without_cancelled
            out = centre + (rest + flow.masked_fill(cancelled, 0.0)) / (1 + weight.masked_fill(cancelled, 0.0))
    return out.to(v.dtype)


def _by_rows(norm: str) -> bool:
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {NORMS}, received {norm!r}")
    return norm == "l2"
