"""The small network of implicit filters: linear maps under sines of a learned frequency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from graphbench.ops.backend import choose, has_triton
from graphbench.ops.sine_network import cpu, reference

__all__ = ["sine_network"]


def _gpu(*arguments: Any) -> Tensor:
    from graphbench.ops.sine_network import gpu  # needs Triton

    return gpu.sine_network(*arguments)


_IMPLEMENTATIONS: dict[str, Any] = {"reference": reference.sine_network, "gpu": _gpu, "cpu": cpu.sine_network}


def sine_network(
    z: Tensor,
    hidden: Sequence[tuple[Tensor, Tensor]],
    out: Tensor,
    frequency: Tensor,
    *,
    backend: str = "auto",
) -> Tensor:
    """``W_out s(W_m s( .. s(W_0 z + b_0) .. ) + b_m)`` with ``s(y) = sin(frequency * y)``.

    Args:
        z: (M, d) positions; backend ``"gpu"`` has no gradient for them.
        hidden: weight (w, d), for all but the first (w, w), and bias (w,) of every hidden layer; at least one.
        out: (C, w).
        frequency: (w,).
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (M, C) of the type of ``z``.

    Raises:
        ValueError: shapes do not fit each other, or ``z`` requires a gradient of backend ``"gpu"``.
    """
    width, columns = len(frequency), z.shape[-1]
    expected = [((width, width if number else columns), (width,)) for number in range(len(hidden))]
    received = [(tuple(weight.shape), tuple(bias.shape)) for weight, bias in hidden]
    if not hidden or received != expected or out.shape[1:] != (width,):
        raise ValueError(
            f"hidden layers must have shapes {expected}, out (C, {width}), received {received} and {tuple(out.shape)}"
        )
    if backend == "auto" and has_triton(z) and not z.requires_grad:
        backend = "gpu"
    if backend == "gpu" and z.requires_grad:
        raise ValueError("z gets no gradient from backend gpu, received a tensor that requires one")
    result: Tensor = choose("sine_network", backend, _IMPLEMENTATIONS)(z, hidden, out, frequency)
    return result
