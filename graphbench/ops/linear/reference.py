"""Linear maps as the equation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def linear_and_rows(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_and_rows`."""
    out = h @ weight.t()
    out = out if bias is None else out + bias
    return (torch.relu(out) if relu else out), h


def linear_parts(h: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_parts`."""
    return torch.stack([h @ weight.t() + bias for weight, bias in zip(weights, biases, strict=True)], dim=1), h
