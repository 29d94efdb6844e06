"""Rows of length one, of what ReLU leaves."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.unit_rows import cpu, reference
from graphbench.ops.unit_rows.cpu import unit_length

__all__ = ["unit_length", "unit_rows"]


_IMPLEMENTATIONS = Backends(reference.unit_rows, cpu.unit_rows, gpu=True)


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
    return _IMPLEMENTATIONS.choose(backend, x)(x, eps)
