"""Segment reductions on ``embedding_bag``, torch's fastest row-summing kernel (measured in the README)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from graphbench.structures import Ragged
from graphbench.structures.capacity import CapacityRagged
from graphbench.structures.first_order import first_order

# Rows summed one after the other before their partial sums are; keeps the rounding error that of a pairwise sum.
_FAN_IN = 32


def bag_sum(rows: Tensor, index: Tensor, ptr: Tensor, weight: Tensor | None = None) -> Tensor:
    """See :func:`graphbench.ops.segment.bag_sum`."""
    return F.embedding_bag(index, rows, ptr, mode="sum", per_sample_weights=weight, include_last_offset=True)


def segment_sum(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_sum`."""
    return _SegmentSum.apply(x, ragged)  # type: ignore[no-untyped-call]


def segment_mean(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_mean`."""
    sizes = ragged.size_tensor.clamp(min=1).to(x.dtype)
    return segment_sum(x, ragged) / sizes.view(-1, *(1 for _ in x.shape[1:]))


def segment_repeat(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_repeat`."""
    if x.device.type == "cpu":  # whose own backward pass adds in the order of the rows
        return x.index_select(0, ragged.graph_id)
    return _SegmentRepeat.apply(x, ragged)  # type: ignore[no-untyped-call]


@torch.no_grad()
def segment_flip(x: Tensor, coin: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_flip`."""
    return x * (2 * coin - 1).to(x.dtype).index_select(0, ragged.graph_id)


def segment_max(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_max`."""
    return _SegmentMax.apply(x, ragged)  # type: ignore[no-untyped-call]


def segment_softmax(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_softmax`."""
    return _SegmentSoftmax.apply(x, ragged)  # type: ignore[no-untyped-call]


def sum_rows(x: Tensor, ragged: Ragged) -> Tensor:
    """(G, ...) sums without a gradient."""
    if x.numel() == 0:
        return x.new_zeros(ragged.num_graphs, *x.shape[1:])
    if ragged.num_graphs == 1:
        return x.sum(0, keepdim=True)
    flat = x.reshape(x.shape[0], -1)
    for index, ptr in ragged.derived(_levels):
        flat = bag_sum(flat, index, ptr)
    return flat.view(ragged.num_graphs, *x.shape[1:])


def _levels(ragged: Ragged) -> list[tuple[Tensor, Tensor]]:
    """All rows and pointers of a tree of sums: pieces of at most ``_FAN_IN`` rows first, then pieces of pieces."""
    if isinstance(ragged, CapacityRagged):
        return _capacity_levels(ragged)
    sizes, pointers = np.asarray(ragged.sizes, dtype=np.int64), []
    while sizes.max(initial=0) > _FAN_IN:
        pieces = -(-sizes // _FAN_IN)
        start = np.cumsum(sizes) - sizes
        within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        pointers.append(np.append(np.repeat(start, pieces) + _FAN_IN * within, sizes.sum()))
        sizes = pieces
    pointers.append(np.append(0, np.cumsum(sizes)))
    return [
        (torch.arange(ptr[-1], device=ragged.device), torch.from_numpy(ptr).to(ragged.device, non_blocking=True))
        for ptr in pointers
    ]


def _capacity_levels(ragged: CapacityRagged) -> list[tuple[Tensor, Tensor]]:
    """Tree of sums for a padded batch, as deep as its largest graph could need."""
    levels, device = [], ragged.device
    while ragged.max_size > _FAN_IN:
        pieces = ragged.in_pieces(_FAN_IN)
        number = torch.arange(pieces.num_rows, device=device)
        graph = torch.searchsorted(pieces.ptr[1:], number, right=True)
        # Pieces behind the last one are empty and begin where the rows end.
        start = ragged.ptr[graph] + _FAN_IN * (number - pieces.ptr[graph])
        start = torch.minimum(start, ragged.ptr[graph + 1])
        levels.append((torch.arange(ragged.num_rows, device=device), torch.cat([start, ragged.ptr[-1:]])))
        ragged = pieces
    levels.append((torch.arange(ragged.num_rows, device=device), ragged.ptr))
    return levels


def _spread(per_graph: Tensor, ragged: Ragged) -> Tensor:
    if ragged.num_graphs == 1:
        return per_graph.expand(ragged.num_rows, *per_graph.shape[1:])
    return per_graph.index_select(0, ragged.graph_id)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ragged: Ragged) -> Tensor:
        ctx.ragged = ragged
        return sum_rows(x, ragged)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _spread(grad, ctx.ragged), None


class _SegmentRepeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ragged: Ragged) -> Tensor:
        ctx.ragged = ragged
        return x.index_select(0, ragged.graph_id)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return sum_rows(grad, ctx.ragged), None


def _max_rows(x: Tensor, ragged: Ragged) -> Tensor:
    if x.numel() == 0:
        return x.new_zeros(ragged.num_graphs, *x.shape[1:])
    if ragged.num_graphs == 1:
        return x.amax(0, keepdim=True)
    top = torch.segment_reduce(x.contiguous(), "max", offsets=ragged.ptr, axis=0, unsafe=True)
    filled = (ragged.size_tensor > 0).view(-1, *(1 for _ in x.shape[1:]))
    return torch.where(filled, top, torch.zeros((), dtype=x.dtype, device=x.device))


class _SegmentMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ragged: Ragged) -> Tensor:
        ctx.ragged = ragged
        top = _max_rows(x, ragged)
        ctx.save_for_backward(x, top)
        return top

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, top = ctx.saved_tensors
        attains = (x == _spread(top, ctx.ragged)).to(x.dtype)
        grad_per_tie = grad / sum_rows(attains, ctx.ragged).clamp_(min=1)
        return attains.mul_(_spread(grad_per_tie, ctx.ragged)), None


class _SegmentSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ragged: Ragged) -> Tensor:
        exp = (x - _spread(_max_rows(x, ragged), ragged)).exp_()
        probabilities = exp.div_(_spread(sum_rows(exp, ragged), ragged))
        ctx.ragged = ragged
        ctx.save_for_backward(probabilities)
        return probabilities

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (probabilities,) = ctx.saved_tensors
        weighted = grad * probabilities
        return weighted - probabilities * _spread(sum_rows(weighted, ctx.ragged), ctx.ragged), None
