"""One tensor read by several consumers, whose gradients are added at once."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.fan_out import cpu, reference

__all__ = ["fan_out"]


_IMPLEMENTATIONS = Backends(reference.fan_out, cpu.fan_out, gpu=True)


def fan_out(x: Tensor, uses: int, *, backend: str = "auto") -> tuple[Tensor, ...]:
    """``x``, ``uses`` times: nobody may write onto it.

    What autograd adds one by one as gradients arrive, a kernel adds in one pass, in the order of the result.

    Args:
        x: any floating tensor.
        uses: number of its consumers.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``; the last one hands out ``x`` itself.
    """
    if backend == "auto" and uses <= 2:
        backend = "cpu"
    return _IMPLEMENTATIONS.choose(backend, x)(x, uses)
