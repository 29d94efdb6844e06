"""Distances in the layout of a plan, and what they do to a block of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from graphbench.ops.decay_attention.mask import NEVER, Decay, distances, no_path, without_decay

if TYPE_CHECKING:
    from graphbench.ops.blocks import Chunk, Plan
    from graphbench.structures import Ragged

# Largest exponent of lambda ** -s up to which products of powers stand for powers of differences.
_QUICK = 30.0
# A factor counts as exp(-this) where it is smaller: exponentials that underflow take ten times as long.
_LOWEST = {torch.float32: 60.0, torch.float64: 300.0}


@dataclass(frozen=True)
class PairBlock:
    """Distances of the graphs of a chunk.

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


_BLOCKS: WeakKeyDictionary[Ragged, tuple[tuple[Any, ...], Any, list[PairBlock]]] = WeakKeyDictionary()


def blocks_of(index: Tensor, ragged: Ragged, plan: Plan, mask: Decay, dtype: torch.dtype) -> list[PairBlock]:
    """One block per chunk; the last ones are kept, because all layers of a model ask for the same."""
    key = (id(plan), mask, dtype)  # a plan lives as long as its partition
    known = _BLOCKS.get(ragged)
    if known is None or known[0] != key or known[1]() is not index:
        first = [0]
        for size in ragged.sizes:
            first.append(first[-1] + size * size)
        known = key, ref(index), [_block(index, each, first, ragged.sizes, mask, dtype) for each in plan.chunks]
        _BLOCKS[ragged] = known
    return known[2]


def _block(
    index: Tensor, chunk: Chunk, first: list[int], sizes: tuple[int, ...], mask: Decay, dtype: torch.dtype
) -> PairBlock:
    length, graphs = chunk.length, chunk.graphs
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
    if mask.kind != "exponential" or mask.mask_on != "scores":
        return ()
    reach = (-mask.log_decay * psi.to(dtype)).clamp_(max=_LOWEST[dtype])
    return (reach.neg().exp_(), (-mask.slope * reach).exp_()) if mask.slope else (reach.neg_().exp_(),)


class Damping:
    """Damps the scores of a chunk, block by block, and takes their gradient back.

    Args:
        mask: how.
        block: distances.
        start: (H,) start points.
        padding: (B, 1, 1, L) minus infinity on keys of padding, or None.
    """

    def __init__(self, mask: Decay, block: PairBlock, start: Tensor, padding: Tensor | None) -> None:
        self._mask, self._block, self._all_starts = mask, block, start.view(-1, 1, 1)
        self._padding = None if padding is None else padding.to(start.dtype)
        self._added = mask.mask_on == "probs"
        self._scales: list[Tensor] = []
        if block.powers and -mask.log_decay * float(start.abs().max()) <= _QUICK:
            self._scales = [(-mask.log_decay * each * self._all_starts).exp() for each in (1.0, mask.slope)]

    def at(self, batch: slice, rows: slice) -> None:
        """Goes to a block of (B * H, i) rows; B is 1 where they are not all."""

        def part(of: Tensor | None) -> Tensor | None:
            return None if of is None else of[:, :, rows]

        self._heads = batch if len(self._block.psi) == 1 else slice(None)
        self._start = self._all_starts[self._heads]
        self._kept, self._closed = part(self._block.kept), part(self._block.closed)
        self._rows = rows
        factor = self._product() if self._scales else self._value()
        kept = 0.0 if self._added else 1.0
        self._factor = factor if self._kept is None else factor.masked_fill_(self._kept, kept)

    def damped(self, scores: Tensor) -> Tensor:
        """z, a new tensor: the product with M or the sum with ln M, minus infinity where attention is closed."""
        factor, own = self._factor, scores.view_as(self._factor)
        if self._added:
            z = own + factor
            z = z if self._padding is None else z.add_(self._padding)
        else:
            z = own * factor if self._padding is None else torch.addcmul(self._padding, own, factor)
        return (z if self._closed is None else z.masked_fill_(self._closed, -torch.inf)).view_as(scores)

    def backward(self, change: Tensor, scores: Tensor, grad_start: Tensor | None) -> Tensor:
        """The gradient of the scores from that of z (overwritten); adds to the gradient of the start points."""
        exponential, slope_of_mask = self._mask.kind == "exponential", None
        if grad_start is not None:
            slope_of_mask = self._derivative()
            if self._added or not exponential:
                slope_of_mask.mul_(change.view_as(slope_of_mask))
        if not self._added:
            change.mul_(self._factor.view_as(change))
        if grad_start is not None and slope_of_mask is not None:
            if not self._added:
                slope_of_mask.mul_(scores.view_as(slope_of_mask))
                if exponential:  # d M / d s has M as a factor
                    slope_of_mask.mul_(change.view_as(slope_of_mask))
            constant = -self._mask.log_decay if exponential and self._mask.decay else float(not exponential)
            grad_start[self._heads] += slope_of_mask.sum((0, 2, 3)) * constant
        return change

    @property
    def _psi(self) -> Tensor:
        """(B, 1, i, j): all heads share it."""
        return self._block.psi[:, :, self._rows].to(self._start.dtype)

    def _product(self) -> Tensor:
        """M from powers of lambda; of the two branches of LeakyReLU the right one gives the smaller power."""
        powers = zip(self._block.powers, self._scales)
        far, *near = (power[:, :, self._rows] * scale[self._heads] for power, scale in powers)
        return torch.minimum(far, near[0], out=far) if near else far.clamp_(max=1)

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
            return factor.log_().clamp_(min=NEVER) if self._added else factor
        if self._added:
            return self._reach(-self._mask.log_decay).neg_()
        return self._reach(-self._mask.log_decay, _LOWEST[self._start.dtype]).neg_().exp_()

    def _derivative(self) -> Tensor:
        """(B, h, i, j): that of :meth:`_value` by s; of an exponential mask without its constant and the factor M."""
        slope = self._mask.slope
        found = torch.empty_like(self._factor)
        torch.gt(self._psi, self._start, out=found)
        if slope:
            found.mul_(1 - slope).add_(slope)
        if self._mask.kind == "linear":
            width = self._mask.width(self._start)
            narrowing = (self._mask.fall(self._start) >= 1).to(width.dtype) / width.square()
            found = found / width - self._reach() * narrowing
            if self._added:
                found = torch.where(self._factor > NEVER, found / self._factor.exp(), 0.0)
            else:
                found = found.masked_fill_(self._factor <= 0, 0.0)
        return found if self._kept is None else found.masked_fill_(self._kept, 0.0)
