"""Layer normalisation of every graph on segment sums."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.segment import segment_repeat, segment_sum
from graphbench.structures import Ragged


def graph_layer_norm(h: Tensor, weight: Tensor, bias: Tensor, ragged: Ragged, eps: float) -> Tensor:
    """See :func:`graphbench.ops.graph_layer_norm.graph_layer_norm`."""
    kind, wide = h.dtype, compute_dtype(h)
    h, weight, bias = h.to(wide), weight.to(wide), bias.to(wide)
    entries = (ragged.size_tensor.clamp(min=1) * h.shape[1]).to(h.dtype).unsqueeze(1)
    # Sums over channels first, so that the sum over nodes has one column.
    mean = segment_sum(h.sum(1, keepdim=True), ragged) / entries
    centred = h - segment_repeat(mean, ragged)
    variance = segment_sum(centred.square().sum(1, keepdim=True), ragged) / entries
    scale = segment_repeat((variance + eps).rsqrt(), ragged)
    return torch.addcmul(bias, centred * scale, weight).to(kind)
