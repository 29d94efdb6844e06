"""A linear map under a sine of learned frequency, the layer of implicit filters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.backend import choose, has_triton

__all__ = ["sine_linear"]


def _cpu(x: Tensor, weight: Tensor, bias: Tensor, frequency: Tensor) -> Tensor:
    return torch.sin(frequency * F.linear(x, weight, bias))


def _gpu(*arguments: Any) -> Tensor:
    from graphbench.ops.sine_linear import gpu  # needs Triton

    return gpu.sine_linear(*arguments)


_IMPLEMENTATIONS = {"reference": _cpu, "gpu": _gpu, "cpu": _cpu}


def sine_linear(x: Tensor, weight: Tensor, bias: Tensor, frequency: Tensor, *, backend: str = "auto") -> Tensor:
    """``out = sin(frequency * (x weight^T + bias))``.

    Args:
        x: (M, d).
        weight: (w, d).
        bias: (w,).
        frequency: (w,).
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (M, w) of the type of ``x``.

    Raises:
        ValueError: shapes do not fit each other.
    """
    if x.dim() != 2 or weight.shape != (len(bias), x.shape[1]) or frequency.shape != bias.shape:
        raise ValueError(
            f"weight must be (w, {x.shape[-1]}), bias and frequency (w,), received {tuple(weight.shape)}, "
            f"{tuple(bias.shape)} and {tuple(frequency.shape)} for x {tuple(x.shape)}"
        )
    if backend == "auto" and has_triton(x):
        backend = "gpu"
    return choose("sine_linear", backend, _IMPLEMENTATIONS)(x, weight, bias, frequency)
