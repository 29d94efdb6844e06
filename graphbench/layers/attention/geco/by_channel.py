"""Affine maps with results in channel-major memory, the layout that long convolutions on a GPU read.

A product writes its result in either order at the same cost; transposing (N, C) to (C, N) afterwards reads and writes
all of it once more, with strided access. Notation: N rows, D channels in, C channels out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.layers.attention.geco.local_context import LocalContext
from graphbench.layers.attention.geco.node_order import arrange
from graphbench.structures import GraphBatch

_ONES = 4
"""Columns of ones, one of which carries the bias; four, so that rows stay aligned to 16 bytes."""


def by_channel(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x weight^T + bias``, (N, C) as a view of (C, N)."""
    if bias is None:
        return torch.mm(weight, x.t()).t()
    return torch.addmm(bias.unsqueeze(1), weight, x.t()).t()


def projected(local: LocalContext, projection: nn.Linear, h: Tensor, batch: GraphBatch, order: Tensor | None) -> Tensor:
    """``projection(local(h))`` in the order of a sequence, (N, C) as a view of (C, N).

    In evaluation the normalisation is a scale and a shift per channel: they are folded into the weights, and the bias
    becomes the weight of a column of ones, so that (N, 2 D) and (N, C) are written once. Not under autocast: values far
    from zero would lose digits, rounded before they are centred.
    """
    near, norm = local.near, local.norm
    if near is None or norm is None or norm.training or torch.is_autocast_enabled(h.device.type):
        return by_channel(arrange(local(h, batch, order), order), projection.weight, projection.bias)
    x = torch.cat([h, near(h, batch, order), h.new_ones(h.shape[0], _ONES)], dim=1)
    return by_channel(arrange(x, order), _folded(norm, projection))


def _folded(norm: nn.BatchNorm1d, projection: nn.Linear) -> Tensor:
    """(C, D + _ONES) weights of the normalisation and the map after it; the last columns are those of the ones."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    shift = torch.mv(projection.weight, norm.bias - norm.running_mean * scale) + projection.bias
    padding = shift.new_zeros(len(shift), _ONES - 1)
    return torch.cat([projection.weight * scale, shift.unsqueeze(1), padding], dim=1)
