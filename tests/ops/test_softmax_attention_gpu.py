"""Softmax attention by the Triton kernels of focal attention, which test_focal_attention_gpu.py compiles."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.softmax_attention import softmax_attention
from graphbench.structures import Ragged


def test_tensors_must_lie_on_a_gpu() -> None:
    q = torch.zeros(2, 1, 4)
    with pytest.raises(ValueError, match="needs tensors on a GPU, received tensors on 'cpu'"):
        softmax_attention(q, q, q, Ragged.from_sizes([2]), backend="gpu")
