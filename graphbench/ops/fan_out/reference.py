"""One tensor for several consumers; autograd adds."""

from __future__ import annotations

from torch import Tensor


def fan_out(x: Tensor, uses: int) -> tuple[Tensor, ...]:
    """See :func:`graphbench.ops.fan_out.fan_out`."""
    return tuple(x.clone() for _ in range(uses))
