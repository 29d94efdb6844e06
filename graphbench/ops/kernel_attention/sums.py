"""Random-feature attention of one graph whose rows are never in memory together: sums over keys, then row by row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.ops.kernel_attention.cpu import exponents


@dataclass(frozen=True, eq=False)
class KeySums:
    """Sums over some keys and values of a graph; those of disjoint sets of rows add up.

    With f(k)_r = exp(w_r . y - |y|^2 / 2 - c) of :func:`graphbench.ops.kernel_attention.kernel_attention`, which lacks
    its eps because c, the largest w_r . y of all rows, is not known before the end.

    Attributes:
        top: (H,) float64, c of these rows.
        context: (H, m, f + 1) float64, ``f(k)^T [v | 1]``.
        total: (H, f + 1) float64, sum of ``[v | 1]``.
    """

    top: Tensor
    context: Tensor
    total: Tensor

    def __add__(self, other: KeySums) -> KeySums:
        """The sums over both sets of rows."""
        top = torch.maximum(self.top, other.top)
        context = sum(each.context * (each.top - top).exp().view(-1, 1, 1) for each in (self, other))
        assert isinstance(context, Tensor)
        return KeySums(top, context, self.total + other.total)


def kernel_attention_sums(k: Tensor, v: Tensor, projection: Tensor) -> KeySums:
    """The sums over some rows, at least one; shapes as in :func:`graphbench.ops.kernel_attention.kernel_attention`."""
    k, v = k.double(), v.double()
    exponent, along = exponents(k, projection.detach().double())
    top = along.amax((0, 2))
    features = torch.exp(exponent - top.view(-1, 1))
    values = torch.cat([v, v.new_ones(*v.shape[:2], 1)], dim=2)
    return KeySums(top, torch.einsum("nhm,nhf->hmf", features, values), values.sum(0))


def kernel_attention_of_sums(q: Tensor, sums: KeySums, projection: Tensor, *, eps: float = 1e-4) -> Tensor:
    """Output of some rows of a graph.

    Args:
        q: (R, H, d) queries of these rows.
        sums: sums over all keys of the graph.
        projection: projection that the sums were made with.
        eps: number added to the features, see :func:`graphbench.ops.kernel_attention.kernel_attention`.

    Returns:
        (R, H, f) float64: these rows of ``kernel_attention`` over the whole graph.
    """
    exponent, along = exponents(q.double(), projection.detach().double())
    features = torch.exp(exponent - along.amax(2, keepdim=True)) + eps
    out = torch.einsum("nhm,hmf->nhf", features, sums.context + eps * sums.total.unsqueeze(1))
    return out[..., :-1] / out[..., -1:]
