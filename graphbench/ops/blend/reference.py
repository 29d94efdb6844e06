"""A mixture as the equation."""

from __future__ import annotations

from torch import Tensor


def blend(a: Tensor, b: Tensor, gamma: Tensor) -> Tensor:
    """See :func:`graphbench.ops.blend.blend`."""
    return (a + gamma * b) / (1 + gamma)
