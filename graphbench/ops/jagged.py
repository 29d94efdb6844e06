"""Partitions and rows from where others keep them: ``cu_seqlens`` of FlashAttention, jagged nested tensors of PyTorch.

::

    ragged = from_cu_seqlens(cu_seqlens)                     # flash_attn_varlen_func(q, k, v, cu_seqlens, ...)
    out = softmax_attention(q, k, v, ragged)                 # q, k, v (total, H, d), as there

    (q, k, v), ragged = from_nested(q, k, v)                 # torch.nested, layout=torch.jagged, (B, n, H, d)
    out = to_nested(sparse_flow(q, k, v, ...), ragged)
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from graphbench.structures import Ragged

__all__ = ["from_cu_seqlens", "from_nested", "to_nested"]


def from_cu_seqlens(cu_seqlens: Tensor) -> Ragged:
    """The partition of cumulated lengths. They are copied to the host once: make one partition for all layers.

    Args:
        cu_seqlens: (G+1,) int32 or int64, beginning with 0: first row of every sequence, and the total.

    Raises:
        ValueError: it is something else, or descends.
    """
    if cu_seqlens.dim() != 1 or not len(cu_seqlens) or cu_seqlens.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"cu_seqlens must be (G+1,) of int32 or int64, received {tuple(cu_seqlens.shape)} of {cu_seqlens.dtype}"
        )
    ends = cu_seqlens.tolist()
    if ends[0] != 0:
        raise ValueError(f"cu_seqlens must begin with 0, received {ends[0]}")
    return Ragged.from_sizes([end - start for start, end in itertools.pairwise(ends)], cu_seqlens.device)


def from_nested(*nested: Any) -> tuple[tuple[Tensor, ...], Ragged]:
    """Rows and partition of jagged nested tensors; gradients go through.

    Args:
        *nested: (B, n, ...) each, n being ragged, of the same lengths.

    Returns:
        The rows of every one, (total, ...), and the partition.

    Raises:
        ValueError: no tensor, another layout, another ragged dimension, holes, or different lengths.
    """
    if not nested:
        raise ValueError("from_nested needs a nested tensor, received none")
    for each in nested:
        if not each.is_nested or each.layout != torch.jagged or each.lengths() is not None or each._ragged_idx != 1:
            kind = f"nested, {each.layout}" if each.is_nested else f"{tuple(each.shape)}, {each.layout}"
            raise ValueError(
                f"expected nested tensors (B, n, ...) of layout torch.jagged without holes, received {kind}"
            )
    offsets = nested[0].offsets()
    if any(other.offsets() is not offsets and not torch.equal(other.offsets(), offsets) for other in nested[1:]):
        raise ValueError("the nested tensors have different lengths")
    return tuple(each.values() for each in nested), from_cu_seqlens(offsets)


def to_nested(rows: Tensor, ragged: Ragged) -> Tensor:
    """(B, n, ...) jagged nested tensor of (N, ...) rows; gradients go through."""
    if len(rows) != ragged.num_rows:
        raise ValueError(f"rows must be ({ragged.num_rows}, ...), received {tuple(rows.shape)}")
    return torch.nested.nested_tensor_from_jagged(rows, ragged.ptr)
