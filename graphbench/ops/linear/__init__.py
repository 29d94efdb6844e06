"""Linear maps of rows, with ReLU where it follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.linear import cpu, reference

__all__ = ["linear", "linear_and_rows", "linear_parts"]


_PARTS = Backends(reference.linear_parts, cpu.linear_parts, gpu=True)
_IMPLEMENTATIONS = Backends(reference.linear_and_rows, cpu.linear_and_rows, gpu=True)
Act = Literal["identity", "relu"]


def linear(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    act: Act = "identity",
    backend: str = "auto",
) -> Tensor:
    """``act(h W^T + b)``; arguments and errors as in :func:`linear_and_rows`."""
    return linear_and_rows(h, weight, bias, act=act, backend=backend)[0]


def linear_and_rows(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    act: Act = "identity",
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """``act(h W^T + b)``, and ``h`` for whoever reads it next: its gradient is added by the product of the map's.

    Args:
        h: (R, d).
        weight: (f, d).
        bias: (f,), or None for 0.
        act: activation that follows.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (R, f), and ``h``, onto which nobody may write.

    Raises:
        ValueError: shapes do not fit each other, or ``act`` is unknown.
    """
    if h.dim() != 2 or weight.dim() != 2 or weight.shape[1] != h.shape[1]:
        raise ValueError(f"h must be (R, d) and weight (f, d), received {tuple(h.shape)} and {tuple(weight.shape)}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must be ({weight.shape[0]},), received {tuple(bias.shape)}")
    if act not in ("identity", "relu"):
        raise ValueError(f"act must be 'identity' or 'relu', received {act!r}")
    return _IMPLEMENTATIONS.choose(backend, h)(h, weight, bias, act == "relu")


def linear_parts(
    h: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], *, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """``[h W^T + b for W, b in zip(weights, biases)]``, on a device as one product; and ``h`` for the next reader.

    Args:
        h: (R, d).
        weights: weights of the maps, at least one, (f, d) each.
        biases: biases, one per weight, (f,) each.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (R, maps, f), on a device every map in one piece of memory, and ``h`` as from :func:`linear_and_rows`.

    Raises:
        ValueError: shapes do not fit each other.
    """
    shapes = {tuple(weight.shape) for weight in weights}
    if h.dim() != 2 or len(shapes) != 1 or any(len(shape) != 2 or shape[1] != h.shape[1] for shape in shapes):
        raise ValueError(f"weights must be (f, d) for h (R, d), received {sorted(shapes)} and {tuple(h.shape)}")
    if [tuple(bias.shape) for bias in biases] != [weights[0].shape[:1]] * len(weights):
        raise ValueError(f"biases must be (f,), as many as weights, received {[tuple(bias.shape) for bias in biases]}")
    return _PARTS.choose(backend, h)(h, weights, biases)
