"""Softmax attention on a GPU: graphs of different sizes in one Triton kernel, large ones by torch's fused kernel."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.focal_attention import gpu as focal
from graphbench.ops.focal_attention.scope import Scope
from graphbench.ops.gpu_launch import WIDEST, has_kernels
from graphbench.ops.softmax_attention.cpu import fused
from graphbench.structures import CapacityRagged, Ragged

# From this size on torch's kernel pays, although it takes a call per size of graphs.
_LARGE = 1024


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    dropout_p: float,
    bias: Tensor | None,
    packed: Tensor | None = None,
) -> Tensor:
    """See :func:`graphbench.ops.softmax_attention.softmax_attention`: focal attention without a limit.

    ``packed`` is (N, 3, H, d), of which q, k, v are views.
    """
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    capable = has_kernels("softmax_attention", q) and max(q.shape[2], v.shape[2]) <= WIDEST and dropout_p < 1
    # Of a padded batch torch's would see every graph padded to the largest there can be, and a mask.
    large = ragged.max_size > _LARGE and not isinstance(ragged, CapacityRagged)
    if not capable or large:
        return fused(q, k, v, ragged, dropout_p, bias)
    everything = Scope(ragged, None, (None,) * q.shape[1], False)
    return focal.focal_attention(q, k, v, everything, (), bias, dropout_p, packed)
