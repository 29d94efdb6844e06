"""Rows of length one, of what ReLU leaves."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import choose, has_triton
from graphbench.ops.unit_rows import cpu, reference

__all__ = ["unit_rows"]


def _gpu(x: Tensor, eps: float) -> Tensor:
    from graphbench.ops.unit_rows import gpu  # needs Triton

    return gpu.unit_rows(x, eps)


_IMPLEMENTATIONS = {"reference": reference.unit_rows, "gpu": _gpu, "cpu": cpu.unit_rows}


def unit_rows(x: Tensor, *, eps: float = 1e-12, backend: str = "auto") -> Tensor:
    r"""``relu(x) / max(\|relu(x)\|_2, eps)``, row by row.

    Args:
        x: (R, d).
        eps: keeps rows without a positive entry finite: they stay 0.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (R, d).

    Raises:
        ValueError: ``x`` has not two dimensions.
    """
    if x.dim() != 2:
        raise ValueError(f"x must be (R, d), received {tuple(x.shape)}")
    if backend == "auto" and has_triton(x):
        backend = "gpu"
    return choose("unit_rows", backend, _IMPLEMENTATIONS)(x, eps)
