"""Distances in the layout of a bucket's scores, and what they do to a tile of them."""

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
class PairBlock:
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
    """The blocks that were asked for last: all layers of a model ask for the same."""

    def __init__(self, ragged: Ragged) -> None:
        self.index: Callable[[], Tensor | None] = lambda: None
        self.key: tuple[Any, ...] = ()
        self.blocks: list[PairBlock] = []


def blocks_of(index: Tensor, ragged: Ragged, layout: PaddedLayout, mask: Decay, dtype: torch.dtype) -> list[PairBlock]:
    """One block per bucket."""
    latest, key = ragged.derived(_Latest), (layout, mask, dtype)
    if latest.index() is not index or latest.key != key:
        latest.index, latest.key = ref(index), key
        latest.blocks = [_block(index, bucket, ragged, mask, dtype) for bucket in layout.buckets]
    return latest.blocks


def _block(index: Tensor, bucket: Bucket, ragged: Ragged, mask: Decay, dtype: torch.dtype) -> PairBlock:
    length, graphs, sizes, first = bucket.length, bucket.graphs, ragged.sizes, ragged.pair_starts
    if len(graphs) == 1:
        cells = index[first[graphs[0]] : first[graphs[0] + 1]].view(1, 1, length, length)
    else:
        cells = index.new_zeros(len(graphs), 1, length, length)
        for cell, graph in zip(cells[:, 0], graphs, strict=True):
            cell[: sizes[graph], : sizes[graph]] = index[first[graph] : first[graph + 1]].view(sizes[graph], -1)
    missing, kept = no_path(cells), without_decay(cells, mask.unreachable)
    some_missing, some_kept = bool(missing.any()), kept is not None and bool(kept.any())
    if not (some_missing or some_kept):
        return PairBlock(cells, _powers(cells, mask, dtype))
    psi = distances(cells, dtype)
    if some_kept and not mask.slope:
        assert kept is not None
        psi = psi.masked_fill_(kept, NEVER)  # before every start point: factor 1, derivative 0
    return PairBlock(
        psi,
        _powers(psi, mask, dtype),
        kept if some_kept and mask.slope else None,
        missing if some_missing and mask.unreachable == "mask" else None,
    )


def _powers(psi: Tensor, mask: Decay, dtype: torch.dtype) -> tuple[Tensor, ...]:
    if not _by_powers(mask):
        return ()
    reach = (-mask.log_decay * psi.to(dtype)).clamp_(max=_LOWEST[dtype])
    return (reach.neg().exp_(), (-mask.slope * reach).exp_()) if mask.slope else (reach.neg_().exp_(),)


def _by_powers(mask: Decay) -> bool:
    return mask.kind == "exponential" and mask.mask_on == "scores"


class Damping:
    """Damps scores, bucket by bucket and tile by tile, and takes their gradient back.

    Where products of powers stand for powers of differences, M is kept without its factor ``lambda ** -s``: one pass
    less over the pairs. The queries carry it, see :meth:`lifted`; then everything here is about lifted scores.

    Args:
        mask: how.
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

    def enter(self, bucket: Bucket, block: PairBlock) -> None:
        """Goes to a bucket."""
        self._block, self._padding = block, bucket.padding(self._all_starts.dtype)

    def at(self, batch: slice, rows: slice) -> None:
        """Goes to a tile of (B * H, i) rows of the bucket; B is 1 where they are not all."""

        def part(of: Tensor | None) -> Tensor | None:
            return None if of is None else of[:, :, rows]

        self._heads = batch if len(self._block.psi) == 1 else slice(None)
        self._start = self._all_starts[self._heads]
        self._kept, self._closed = part(self._block.kept), part(self._block.closed)
        self._rows = rows
        self._factor = self._value() if self._lift is None else self._product(self._lift[self._heads])

    def damped(self, scores: Tensor, out: Tensor | None = None) -> Tensor:
        """z: the product with M or the sum with ln M, minus infinity where attention is closed.

        A new tensor, or written to ``out``, which may be ``scores``.
        """
        factor, own = self._factor, scores.view_as(self._factor)
        z = torch.empty_like(own) if out is None else out.view_as(own)
        if self._added:
            torch.add(own, factor, out=z)
            if self._padding is not None:
                z.add_(self._padding)
        elif self._padding is None:
            torch.mul(own, factor, out=z)
        else:
            torch.addcmul(self._padding, own, factor, out=z)
        return (z if self._closed is None else z.masked_fill_(self._closed, -torch.inf)).view_as(scores)

    def backward(self, change: Tensor, scores: Tensor, grad_start: Tensor | None) -> Tensor:
        """The gradient of the scores from that of z (overwritten); adds to the gradient of the start points.

        Ends the block: M is overwritten.
        """
        linear = self._mask.kind == "linear"
        if grad_start is not None and linear:
            self._add_to(grad_start, self._derivative(), change, scores)
        if not self._added:
            change.mul_(self._factor.view_as(change))
        if grad_start is not None and not linear:  # d M / d s has M as a factor
            constant = -self._mask.log_decay if self._mask.decay else 0.0
            self._add_to(grad_start, self._behind_start(out=self._factor), change, scores, constant)
        return change

    def _add_to(
        self, grad_start: Tensor, per_pair: Tensor, change: Tensor, scores: Tensor, constant: float = 1.0
    ) -> None:
        per_pair.mul_(change.view_as(per_pair))
        if not self._added:
            per_pair.mul_(scores.view_as(per_pair))
        grad_start[self._heads] += per_pair.sum((0, 2, 3)) * constant

    @property
    def _psi(self) -> Tensor:
        """(B, 1, i, j): all heads share it."""
        return self._block.psi[:, :, self._rows].to(self._start.dtype)

    def _product(self, lift: Tensor) -> Tensor:
        """M / lift from powers of lambda; of the two branches of LeakyReLU the right one gives the smaller power."""
        cap, (far, *near) = lift.reciprocal(), (power[:, :, self._rows] for power in self._block.powers)
        if not near:
            return torch.minimum(far, cap)
        # lambda ** (slope (psi - s)) / lift
        factor = near[0] * cap.pow(1 - self._mask.slope)
        torch.minimum(factor, far, out=factor)
        return factor if self._kept is None else torch.where(self._kept, cap, factor)

    def _reach(self, unit: float = 1.0, most: float | None = None) -> Tensor:
        """x, (B, h, i, j), times a unit that is not negative, at most ``most``."""
        x = (self._psi if unit == 1 else self._psi * unit) - self._start * unit
        if not self._mask.slope:
            return x.clamp_(min=0, max=most)
        x = leaky_relu(x, self._mask.slope, inplace=True)
        return x if most is None else x.clamp_(max=most)

    def _value(self) -> Tensor:
        """M, or ln M where weights are masked."""
        if self._mask.kind == "linear":
            factor = self._reach().div_(self._mask.width(self._start)).neg_().add_(1).clamp_(min=0)
            factor = factor.log_().clamp_(min=NEVER) if self._added else factor
        elif self._added:
            factor = self._reach(-self._mask.log_decay).neg_()
        else:
            factor = self._reach(-self._mask.log_decay, _LOWEST[self._start.dtype]).neg_().exp_()
        return factor if self._kept is None else factor.masked_fill_(self._kept, 0.0 if self._added else 1.0)

    def _behind_start(self, out: Tensor | None = None) -> Tensor:
        """(B, h, i, j): 1 for the pairs behind the start point, ``slope`` for those before it, 0 where M is fixed."""
        found = torch.empty_like(self._factor) if out is None else out
        torch.gt(self._psi, self._start, out=found)
        if self._mask.slope:
            found.mul_(1 - self._mask.slope).add_(self._mask.slope)
        return found if self._kept is None else found.masked_fill_(self._kept, 0.0)

    def _derivative(self) -> Tensor:
        """(B, h, i, j): that of :meth:`_value` by s, for a linear mask."""
        width = self._mask.width(self._start)
        narrowing = (self._mask.fall(self._start) >= 1).to(width.dtype) / width.square()
        found = self._behind_start() / width - self._reach() * narrowing
        if self._added:
            found = torch.where(self._factor > NEVER, found / self._factor.exp(), 0.0)
        else:
            found = found.masked_fill_(self._factor <= 0, 0.0)
        return found if self._kept is None else found.masked_fill_(self._kept, 0.0)
