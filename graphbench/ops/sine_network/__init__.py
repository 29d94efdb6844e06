"""The small network of implicit filters: linear maps under sines of a learned frequency."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.sine_network import cpu, reference

__all__ = ["sine_network"]


_IMPLEMENTATIONS = Backends(reference.sine_network, cpu.sine_network, gpu=True)


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
    if backend == "gpu" and z.requires_grad:
        raise ValueError("z gets no gradient from backend gpu, received a tensor that requires one")
    if backend == "auto" and z.requires_grad:
        backend = "cpu"
    return _IMPLEMENTATIONS.choose(backend, z)(z, hidden, out, frequency)
