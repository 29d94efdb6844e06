"""Segment reductions as loops over graphs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphbench.structures import Ragged


def segment_sum(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_sum`."""
    return _reduce(x, ragged, lambda rows: rows.sum(0))


def segment_mean(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_mean`."""
    sizes = ragged.size_tensor.clamp(min=1).to(x.dtype)
    return segment_sum(x, ragged) / sizes.view(-1, *(1 for _ in x.shape[1:]))


def segment_repeat(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_repeat`."""
    parts = [row.expand(size, *row.shape) for row, size in zip(x, ragged.sizes)]
    return torch.cat(parts) if parts else x.clone()


def segment_flip(x: Tensor, coin: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_flip`."""
    parts = [rows * (2.0 * signs - 1.0).to(x.dtype) for rows, signs in zip(x.split(list(ragged.sizes)), coin)]
    return torch.cat(parts).detach() if parts else x.detach().clone()


def segment_max(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_max`."""
    return _reduce(x, ragged, lambda rows: rows.amax(0))


def segment_softmax(x: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.segment.segment_softmax`."""
    return torch.cat([torch.softmax(rows, 0) for rows in x.split(list(ragged.sizes))]) if ragged.sizes else x.clone()


def _reduce(x: Tensor, ragged: Ragged, function: Callable[[Tensor], Tensor]) -> Tensor:
    zero = x.new_zeros(x.shape[1:])
    rows = [function(part) if len(part) else zero for part in x.split(list(ragged.sizes))] if ragged.sizes else []
    return torch.stack(rows) if rows else x.new_zeros(0, *x.shape[1:])
