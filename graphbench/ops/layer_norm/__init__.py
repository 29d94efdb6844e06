"""Layer normalisation of every row by itself, with the sum that stands before it in a block."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.layer_norm import cpu, reference

__all__ = ["layer_norm"]


_IMPLEMENTATIONS = Backends(reference.layer_norm, cpu.layer_norm, gpu=True)


def layer_norm(
    h: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    added: Tensor | None = None,
    added_dropout: float = 0.0,
    eps: float = 1e-5,
    backend: str = "auto",
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with ``x = h + drop(added)`` (https://arxiv.org/abs/1607.06450).

    Mean and (biased) variance are those of the d entries of a row of x.

    Args:
        h: (R, d).
        weight: (d,).
        bias: (d,).
        added: (R, d), or None for 0.
        added_dropout: probability of dropping an entry of it; 0 in evaluation. Reproducible from torch's global
            generator.
        eps: number added to the variance.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (R, d).

    Raises:
        ValueError: shapes do not fit each other, or a probability is outside [0, 1].
    """
    if h.dim() != 2 or weight.shape != h.shape[1:] or bias.shape != h.shape[1:]:
        shapes = tuple(h.shape), tuple(weight.shape), tuple(bias.shape)
        raise ValueError("h must be (R, d), weight and bias (d,), received {}, {} and {}".format(*shapes))
    if added is not None and added.shape != h.shape:
        raise ValueError(f"added must be {tuple(h.shape)} as h, received {tuple(added.shape)}")
    if not 0.0 <= added_dropout <= 1.0:
        raise ValueError(f"dropout probability must lie in [0, 1], received {added_dropout}")
    return _IMPLEMENTATIONS.choose(backend, h)(h, weight, bias, added, added_dropout, eps)
