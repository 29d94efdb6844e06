"""Distances in the layout of a bucket's scores, and what they do to a tile of them. Notation: README.

B graphs, h heads of a tile, i query rows, j key rows; x = LeakyReLU(psi - s): how far a pair is beyond the start point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from graphbench.ops.bucket_pairs import scaled
from graphbench.ops.decay_attention.mask import NEVER, Decay, distances, no_path, without_decay
from graphbench.structures import Bucket, PaddedLayout, Ragged

# Largest exponent of lambda ** -s up to which products of powers stand for powers of differences.
_QUICK = 30.0
# A factor counts as exp(-this) where it is smaller: exponentials that underflow take ten times as long.
_LOWEST = {torch.float32: 60.0, torch.float64: 300.0}


@dataclass(frozen=True)
class BucketDistances:
    """Distances of the graphs of a bucket.

    Attributes:
        psi: (B, 1, L, L), as the caller has them where none is special; 0 on padding.
        kept: pairs whose factor is 1 whatever their distance; None for none, or where psi says so itself.
        closed: pairs that do not attend; None for none.
        powers: lambda ** psi, and lambda ** (slope psi) where there is a slope, for masks on scores that decay
            exponentially: they take one product per head, and no exponential; else empty.
    """

    psi: Tensor
    powers: tuple[Tensor, ...]
    kept: Tensor | None = None
    closed: Tensor | None = None


class _Latest:
    """The distances that were asked for last: all layers of a model ask for the same."""

    def __init__(self, ragged: Ragged) -> None:
        self.index: Callable[[], Tensor | None] = lambda: None
        self.key: tuple[Any, ...] = ()
        self.distances: list[BucketDistances] = []


def distances_of(
    index: Tensor, ragged: Ragged, layout: PaddedLayout, mask: Decay, dtype: torch.dtype
) -> list[BucketDistances]:
    """Distances of every bucket of a layout."""
    latest, key = ragged.derived(_Latest), (layout, mask, dtype)
    if latest.index() is not index or latest.key != key:
        latest.index, latest.key = ref(index), key
        latest.distances = [_of_bucket(index, bucket, ragged, mask, dtype) for bucket in layout.buckets]
    return latest.distances


def _of_bucket(index: Tensor, bucket: Bucket, ragged: Ragged, mask: Decay, dtype: torch.dtype) -> BucketDistances:
    length, graphs, starts = bucket.length, bucket.graphs, ragged.pair_starts
    if len(graphs) == 1:
        cells = index[starts[graphs[0]] : starts[graphs[0] + 1]].view(1, 1, length, length)
    else:
        cells = index.new_zeros(len(graphs), 1, length, length)
        for square, graph in zip(cells[:, 0], graphs, strict=True):
            size = ragged.sizes[graph]
            square[:size, :size] = index[starts[graph] : starts[graph + 1]].view(size, size)
    lost, kept = no_path(cells), without_decay(cells, mask.unreachable)
    any_lost, any_kept = bool(lost.any()), kept is not None and bool(kept.any())
    if not (any_lost or any_kept):
        return BucketDistances(cells, _powers(cells, mask, dtype))
    psi = distances(cells, dtype)
    if any_kept and not mask.slope:
        assert kept is not None
        psi = psi.masked_fill_(kept, NEVER)  # before every start point: factor 1, derivative 0
    return BucketDistances(
        psi=psi,
        powers=_powers(psi, mask, dtype),
        kept=kept if any_kept and mask.slope else None,
        closed=lost if any_lost and mask.unreachable == "mask" else None,
    )


def _powers(psi: Tensor, mask: Decay, dtype: torch.dtype) -> tuple[Tensor, ...]:
    if not _by_powers(mask):
        return ()
    exponent = (-mask.log_decay * psi.to(dtype)).clamp_(max=_LOWEST[dtype])
    if mask.slope:
        return exponent.neg().exp_(), (-mask.slope * exponent).exp_()
    return (exponent.neg_().exp_(),)


def _by_powers(mask: Decay) -> bool:
    return mask.kind == "exponential" and mask.mask_on == "scores"


class Damping:
    """Damps scores, bucket by bucket and tile by tile, and takes their gradient back.

    Where products of powers stand for powers of differences, M is kept without its factor ``lambda ** -s``: one pass
    less over the pairs. The queries carry it, see :meth:`lifted`; then everything here is about lifted scores.

    Args:
        mask: decay with distance.
        start: (H,) start points.
    """

    def __init__(self, mask: Decay, start: Tensor) -> None:
        self._mask, self._all_starts = mask, start.view(-1, 1, 1)
        self._added = mask.mask_on == "probs"
        self._lift: Tensor | None = None
        if _by_powers(mask) and -mask.log_decay * float(start.abs().max()) <= _QUICK:
            self._lift = (-mask.log_decay * self._all_starts).exp()

    def lifted(self, q: Tensor) -> Tensor:
        """(cells, H, d) queries, or their gradients, divided by the root of d and with the factor M is kept without."""
        return scaled(q) if self._lift is None else q * (self._lift.view(-1, 1) / math.sqrt(q.shape[2]))

    def set_bucket(self, bucket: Bucket, distances: BucketDistances) -> None:
        """Sets the bucket that later calls are about."""
        self._distances, self._padding = distances, bucket.padding(self._all_starts.dtype)

    def set_tile(self, batch: slice, rows: slice) -> None:
        """Sets the (B * H, i) rows of the bucket that later calls are about; B is 1 where they are not all."""

        def of_rows(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[:, :, rows]

        self._heads = batch if len(self._distances.psi) == 1 else slice(None)
        self._start = self._all_starts[self._heads]
        self._kept, self._closed = of_rows(self._distances.kept), of_rows(self._distances.closed)
        self._rows = rows
        self._factor = self._value() if self._lift is None else self._product(self._lift[self._heads])

    def damped(self, scores: Tensor, out: Tensor | None = None) -> Tensor:
        """z: the product with M or the sum with ln M, minus infinity where attention is closed.

        A new tensor, or written to ``out``, which may be ``scores``.
        """
        factor, scores_Bhij = self._factor, scores.view_as(self._factor)
        z = torch.empty_like(scores_Bhij) if out is None else out.view_as(factor)
        if self._added:
            torch.add(scores_Bhij, factor, out=z)
            if self._padding is not None:
                z.add_(self._padding)
        elif self._padding is None:
            torch.mul(scores_Bhij, factor, out=z)
        else:
            torch.addcmul(self._padding, scores_Bhij, factor, out=z)
        return (z if self._closed is None else z.masked_fill_(self._closed, -torch.inf)).view_as(scores)

    def backward(self, grad_z: Tensor, scores: Tensor, grad_start: Tensor | None) -> Tensor:
        """The gradient of the scores from that of z (overwritten); adds to the gradient of the start points.

        Ends the tile: M is overwritten.
        """
        linear = self._mask.kind == "linear"
        if grad_start is not None and linear:
            self._add_to(grad_start, self._derivative(), grad_z, scores)
        grad_scores = grad_z if self._added else grad_z.mul_(self._factor.view_as(grad_z))
        if grad_start is not None and not linear:  # dM/ds has M as a factor
            constant = -self._mask.log_decay if self._mask.decay else 0.0
            self._add_to(grad_start, self._leaky_slope(out=self._factor), grad_scores, scores, constant)
        return grad_scores

    def _add_to(
        self, grad_start: Tensor, per_pair: Tensor, grad: Tensor, scores: Tensor, constant: float = 1.0
    ) -> None:
        per_pair.mul_(grad.view_as(per_pair))
        if not self._added:
            per_pair.mul_(scores.view_as(per_pair))
        grad_start[self._heads] += per_pair.sum((0, 2, 3)) * constant

    @property
    def _psi(self) -> Tensor:
        """(B, 1, i, j): all heads share it."""
        return self._distances.psi[:, :, self._rows].to(self._start.dtype)

    def _product(self, lift: Tensor) -> Tensor:
        """M / lift from powers of lambda; of the two branches of LeakyReLU the right one gives the smaller power."""
        cap = lift.reciprocal()
        power, *power_of_slope = (x[:, :, self._rows] for x in self._distances.powers)
        if not power_of_slope:
            return torch.minimum(power, cap)
        # lambda ** (slope (psi - s)) / lift
        factor = power_of_slope[0] * cap.pow(1 - self._mask.slope)
        torch.minimum(factor, power, out=factor)
        return factor if self._kept is None else torch.where(self._kept, cap, factor)

    def _x(self, unit: float = 1.0, most: float | None = None) -> Tensor:
        """x, (B, h, i, j), times a unit that is not negative, at most ``most``."""
        x = (self._psi if unit == 1 else self._psi * unit) - self._start * unit
        if not self._mask.slope:
            return x.clamp_(min=0, max=most)
        x = leaky_relu(x, self._mask.slope, inplace=True)
        return x if most is None else x.clamp_(max=most)

    def _value(self) -> Tensor:
        """M, or ln M where weights are masked."""
        if self._mask.kind == "linear":
            factor = self._x().div_(self._mask.width(self._start)).neg_().add_(1).clamp_(min=0)
            factor = factor.log_().clamp_(min=NEVER) if self._added else factor
        elif self._added:
            # ln 0 is one number, whatever the distance: a row of nothing else still has a softmax.
            decay = self._mask.decay
            factor = self._x(-self._mask.log_decay).neg_() if decay else self._x().sign_().mul_(NEVER)
        else:
            factor = self._x(-self._mask.log_decay, _LOWEST[self._start.dtype]).neg_().exp_()
        return factor if self._kept is None else factor.masked_fill_(self._kept, 0.0 if self._added else 1.0)

    def _leaky_slope(self, out: Tensor | None = None) -> Tensor:
        """(B, h, i, j) dx/dpsi: 1 beyond the start point, ``slope`` before it; 0 where M is fixed."""
        slope = torch.empty_like(self._factor) if out is None else out
        torch.gt(self._psi, self._start, out=slope)
        if self._mask.slope:
            slope.mul_(1 - self._mask.slope).add_(self._mask.slope)
        return slope if self._kept is None else slope.masked_fill_(self._kept, 0.0)

    def _derivative(self) -> Tensor:
        """(B, h, i, j): that of :meth:`_value` by s, for a linear mask."""
        width = self._mask.width(self._start)
        narrowing = (self._mask.fall(self._start) >= 1).to(width.dtype) / width.square()
        derivative = self._leaky_slope() / width - self._x() * narrowing
        if self._added:
            derivative = torch.where(self._factor > NEVER, derivative / self._factor.exp(), 0.0)
        else:
            derivative = derivative.masked_fill_(self._factor <= 0, 0.0)
        return derivative if self._kept is None else derivative.masked_fill_(self._kept, 0.0)
