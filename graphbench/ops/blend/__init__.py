"""Two tensors mixed in a proportion that is learned."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.blend import cpu, reference

__all__ = ["blend"]


_IMPLEMENTATIONS = Backends(reference.blend, cpu.blend, gpu=True)


def blend(a: Tensor, b: Tensor, gamma: Tensor, *, backend: str = "auto") -> Tensor:
    """``(a + gamma b) / (1 + gamma)``.

    Args:
        a: floating.
        b: tensor of the same shape and type.
        gamma: () floating, not -1 (not checked: its value may lie on a device).
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Raises:
        ValueError: shapes do not fit each other.
    """
    if a.shape != b.shape or gamma.dim():
        received = f"{tuple(a.shape)}, {tuple(b.shape)} and {tuple(gamma.shape)}"
        raise ValueError(f"a and b must have one shape and gamma be a number, received {received}")
    return _IMPLEMENTATIONS.choose(backend, a)(a, b, gamma)
