"""Dropout from 8- or 16-bit lanes of random words; large masks are generated again in the backward pass, not stored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.structures.first_order import first_order

# Elements handled at a time: a few of these blocks fit into the cache of one core.
_BLOCK = 1 << 17

# Largest mask that is stored: drawing it again takes ten times as long as reading it, but no memory.
_STORED = 1 << 20


def draw_seed() -> int:
    """A seed from torch's global generator, so that ``torch.manual_seed`` governs everything derived from it."""
    return int(torch.randint(2**63 - 1, (), dtype=torch.int64))


class RandomKeep:
    """A stream of keep masks. The same seed gives the same stream, whatever the number of threads.

    A 64-bit random word serves eight entries when ``256 p`` is a whole number and four otherwise; an entry is kept
    when its lane reaches the threshold.

    Args:
        p: probability of dropping an entry, in (0, 1].
        seed: start of the stream.

    Attributes:
        scale: factor of kept entries, 1 / (1 - p) for the rounded ``p`` (0 when all are dropped).
    """

    def __init__(self, p: float, seed: int) -> None:
        self._lane = torch.int8 if (256 * p).is_integer() else torch.int16
        self._lanes_per_word = 8 if self._lane == torch.int8 else 4
        levels = 256 if self._lane == torch.int8 else 65536
        dropped = round(p * levels)
        self.scale = levels / (levels - dropped) if dropped < levels else 0.0
        self._all = dropped == levels
        self._threshold = dropped - levels // 2
        self._generator = torch.Generator().manual_seed(seed)

    def fill_(self, out: Tensor) -> Tensor:
        """Fills a contiguous floating tensor with the next 1 (keep) and 0 (drop) of the stream."""
        if self._all:
            return out.zero_()
        words = torch.empty(-(-out.numel() // self._lanes_per_word), dtype=torch.int64)
        words.random_(-(2**63), None, generator=self._generator)
        lanes = words.view(self._lane)[: out.numel()].view(out.shape)
        return torch.ge(lanes, self._threshold, out=out)


def dropout(x: Tensor, p: float) -> Tensor:
    """See :func:`graphbench.ops.dropout.dropout`; elsewhere torch's own is the fast one."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.dropout(x, p, True)
    return _Dropout.apply(x, p, draw_seed())  # type: ignore[no-untyped-call]


def _drop(x: Tensor, p: float, seed: int) -> Tensor:
    keep = RandomKeep(p, seed)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    flat_in, flat_out = x.reshape(-1), out.view(-1)
    for start in range(0, x.numel(), _BLOCK):
        block = keep.fill_(flat_out[start : start + _BLOCK])
        block.mul_(flat_in[start : start + _BLOCK]).mul_(keep.scale)
    return out


def _factors(x: Tensor, p: float, seed: int) -> Tensor:
    """Factors that :func:`_drop` multiplies the entries of ``x`` by."""
    keep = RandomKeep(p, seed)
    factors = torch.empty_like(x, memory_format=torch.contiguous_format)
    for block in factors.view(-1).split(_BLOCK):  # the stream of _drop: the last word of a block may be half used
        keep.fill_(block).mul_(keep.scale)
    return factors


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.p, ctx.seed = p, seed
        if x.numel() > _STORED or x.element_size() < 4:  # half precision would round the scale
            return _drop(x, p, seed)
        factors = _factors(x, p, seed)
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.saved_tensors:
            return _drop(grad, ctx.p, ctx.seed), None, None
        (factors,) = ctx.saved_tensors
        return grad * factors, None, None
