"""One tensor read by several consumers, whose gradients are added at once."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import choose, has_triton
from graphbench.ops.fan_out import cpu, reference

__all__ = ["fan_out"]


def _gpu(x: Tensor, uses: int) -> tuple[Tensor, ...]:
    from graphbench.ops.fan_out import gpu  # needs Triton

    return gpu.fan_out(x, uses)


_IMPLEMENTATIONS = {"reference": reference.fan_out, "gpu": _gpu, "cpu": cpu.fan_out}


def fan_out(x: Tensor, uses: int, *, backend: str = "auto") -> tuple[Tensor, ...]:
    """``x``, ``uses`` times: nobody may write onto it.

    What autograd adds one by one as gradients arrive, a kernel adds in one pass, in the order of the result.

    Args:
        x: any floating tensor.
        uses: how many consumers it has.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``; the last one hands out ``x`` itself.
    """
    if backend == "auto" and uses > 2 and has_triton(x):
        backend = "gpu"
    return choose("fan_out", backend, _IMPLEMENTATIONS)(x, uses)
