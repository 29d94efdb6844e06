"""Sums over the shares of several gradients in one Triton kernel. Prefixes of names: ``ops/gpu_tiles.py``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphbench.ops.gpu_launch import unspecialized
from graphbench.structures.late_sums import Shares, defer

# Gradients of one launch, shares that are read at once, and numbers of a program, which looks for its gradient first.
MOST, SHARES, BLOCK = 96, 8, 512
# Numbers at multiples of which a gradient lies: 16 bytes.
ALIGNED = 4


def summed(parts: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Gradients of parameters from their shares (shares, numbers), None where they are left for the end of the pass."""
    if defer(parts, parameters, add_up):
        return [None] * len(parameters)
    gradients = add_up([Shares(parts, parameters)])[0]
    return [gradient.to(parameter.dtype) for gradient, parameter in zip(gradients, parameters, strict=True)]


def add_up(given: Sequence[Shares]) -> list[list[Tensor]]:
    """Gradients of the parameters of all shares, in one piece of memory, from one kernel for up to MOST of them."""
    numbers = [each.parts.shape[1] for each in given]
    offsets = [0, *accumulate(-(-number // ALIGNED) * ALIGNED for number in numbers)]
    first = given[0].parts
    sums = first.new_empty(offsets[-1])
    with torch.cuda.device_of(first):
        for start in range(0, len(given), MOST):
            some = slice(start, start + MOST)
            begins = [0, *accumulate(-(-number // BLOCK) for number in numbers[some])]
            counts = unspecialized([len(each.parts) for each in given[some]])  # each batch has others
            add_shares[(begins[-1],)](
                tuple(each.parts for each in given[some]), sums, counts, tuple(numbers[some]),
                tuple(begins[:-1]), tuple(offsets[:-1][some]), COUNT=len(counts),
                SHARES=SHARES, BLOCK=BLOCK, num_warps=4, enable_fp_fusion=True,
            )  # fmt: skip
    return [
        [part.view_as(parameter) for part, parameter in zip(_split(sums[offset:], each), each.parameters, strict=True)]
        for each, offset in zip(given, offsets, strict=False)
    ]


def _split(sums: Tensor, shares: Shares) -> Sequence[Tensor]:
    """The parts of the parameters at the beginning of the numbers."""
    sizes = [parameter.numel() for parameter in shares.parameters]
    return sums[: sum(sizes)].split(sizes)


@triton.jit
def add_shares(
    parts, sums, shares, numbers, begins, offsets,
    COUNT: tl.constexpr, SHARES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums over shares, added up in one order.

    Tuples have an entry per gradient: its ``parts`` (``shares``, ``numbers``), the first of its programs, and where
    among the ``sums`` its own lie; ``shares`` as ``2 x + 3``.
    """
    i_block = tl.program_id(0)
    p_parts, n_s, n_c, i_begin, offset = parts[0], shares[0], numbers[0], begins[0], offsets[0]
    for i in tl.static_range(1, COUNT):
        further = i_block >= begins[i]
        p_parts = tl.where(further, parts[i], p_parts)
        n_s, n_c = tl.where(further, shares[i], n_s), tl.where(further, numbers[i], n_c)
        i_begin, offset = tl.where(further, begins[i], i_begin), tl.where(further, offsets[i], offset)
    n_s = (n_s - 3) // 2
    o_s, o_c = tl.arange(0, SHARES), (i_block - i_begin) * BLOCK + tl.arange(0, BLOCK)
    # [BLOCK]
    b_sum = tl.zeros([BLOCK], dtype=sums.dtype.element_ty)
    for i_s in range(0, n_s, SHARES):
        mask = (i_s + o_s < n_s)[:, None] & (o_c < n_c)[None, :]
        o_share = (i_s + o_s).to(tl.int64) * n_c  # shares of large tables have more numbers than 32 bits count
        b_sum += tl.sum(tl.load(p_parts + o_share[:, None] + o_c[None, :], mask=mask, other=0.0), 0)
    tl.store(sums + offset + o_c, b_sum, mask=o_c < n_c)
