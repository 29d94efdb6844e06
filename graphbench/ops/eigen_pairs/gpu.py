"""Pairs of a ragged batch in one Triton kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.eigen_pairs import cpu
from graphbench.ops.eigen_pairs.gpu_kernels import signed_pairs
from graphbench.ops.gpu_launch import constants_of, draw_seed, has_kernels, unit_stride
from graphbench.structures import Ragged

# Rows and frequencies of a tile; most nodes of a graph that one program goes through.
ROWS, COLUMNS, LARGEST = 32, 32, 1024


def eigen_pairs(eigvecs: Tensor, eigvals: Tensor, ragged: Ragged, flip: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.eigen_pairs.eigen_pairs`; graphs of more than 1024 nodes go through torch code."""
    if not has_kernels("eigen_pairs", eigvecs) or not eigvecs.numel() or ragged.max_size > LARGEST:
        return cpu.eigen_pairs(eigvecs, eigvals, ragged, flip)
    vectors, values = unit_stride(eigvecs.detach()), unit_stride(eigvals.detach())
    pairs, present = vectors.new_empty(*vectors.shape, 2), vectors.new_empty(vectors.shape)
    known = constants(vectors.shape[1], vectors.dtype, flip)
    with torch.cuda.device_of(vectors):
        signed_pairs[ragged.num_graphs, -(-vectors.shape[1] // known["SPAN"])](
            vectors, values, ragged.ptr, draw_seed(vectors.device, float(flip)), pairs, present,
            vectors.stride(0), values.stride(0), **known,
        )  # fmt: skip
    return pairs, present


def constants(width: int, dtype: torch.dtype, flip: bool) -> dict[str, Any]:
    """Constants that are known when the kernel is compiled."""
    return {"FLIP": flip} | constants_of(width, dtype, ROWS, COLUMNS)
