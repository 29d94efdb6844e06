"""The selective scan of Mamba: a linear recurrence along the rows of every graph (https://arxiv.org/abs/2312.00752)."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.library import library_op
from graphbench.ops.selective_scan import cpu, reference
from graphbench.structures import Ragged

__all__ = ["selective_scan"]

_IMPLEMENTATIONS = Backends(reference.selective_scan, cpu.selective_scan)


@library_op(lambda x, *_, **__: x.new_empty(x.shape))
def selective_scan(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, ragged: Ragged, *, backend: str = "auto"
) -> Tensor:
    """State space model with steps that depend on the input, along the rows of every graph in their order.

    Equation, per channel k, with S states s that are 0 before the first row of a graph::

        h_t[k, s] = exp(delta_t[k] a[k, s]) h_{t-1}[k, s] + delta_t[k] b_t[s] x_t[k]
        out_t[k]  = sum_s c_t[s] h_t[k, s] + d[k] x_t[k]

    Args:
        x: (N, D) inputs, rows grouped by graph.
        delta: (N, D) steps, not negative.
        a: (D, S) rates, not positive.
        b: (N, S) input maps.
        c: (N, S) output maps.
        d: (D,) weight of the input itself.
        ragged: the partition of the rows.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"`` (torch code, for every device).

    Returns:
        (N, D) of the type of ``x``.

    Raises:
        ValueError: shapes do not fit each other or ``ragged``, or ``backend`` is unknown.
    """
    rows, channels, states = ragged.num_rows, x.shape[-1], a.shape[-1]
    expected: dict[str, tuple[Tensor, tuple[int, ...]]] = {
        "x": (x, (rows, channels)),
        "delta": (delta, (rows, channels)),
        "a": (a, (channels, states)),
        "b": (b, (rows, states)),
        "c": (c, (rows, states)),
        "d": (d, (channels,)),
    }
    for name, (received, shape) in expected.items():
        if tuple(received.shape) != shape:
            raise ValueError(f"{name} must be {shape}, received {tuple(received.shape)}")
    return _IMPLEMENTATIONS.choose(backend, x)(x, delta, a, b, c, d, ragged)
