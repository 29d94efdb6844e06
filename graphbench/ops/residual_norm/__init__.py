"""Batch normalisation with what stands around it in a block: a sum before, activation, dropout, a residual after."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import choose, has_triton
from graphbench.ops.residual_norm import cpu, reference
from graphbench.ops.residual_norm.cpu import batch_norm
from graphbench.ops.residual_norm.normalization import ALONE, Activation, Normalization, Surroundings
from graphbench.structures.capacity import RealRows

__all__ = ["ALONE", "Activation", "Normalization", "Surroundings", "batch_norm", "residual_norm"]


def _gpu(h: Tensor, norm: Normalization, around: Surroundings, real: RealRows | None) -> Tensor:
    from graphbench.ops.residual_norm import gpu  # needs Triton

    return gpu.residual_norm(h, norm, around, real)


_IMPLEMENTATIONS = {"reference": reference.residual_norm, "gpu": _gpu, "cpu": cpu.residual_norm}


def residual_norm(
    h: Tensor,
    norm: Normalization,
    around: Surroundings = ALONE,
    *,
    real: RealRows | None = None,
    backend: str = "auto",
) -> Tensor:
    """``residual + drop(act(BN(h + drop(added))))``, what is absent left out.

    Equation, channel by channel::

        x = h + drop_p(added),   out = residual + drop_q(act((x - mean) / sqrt(var + eps) * weight + bias))

    In training mean and (biased) variance are those of the real rows of x, and the running statistics move towards
    them; fewer than two real rows have no variance: they, and all rows in evaluation, are normalised by the running
    statistics, which stay as they are.

    Args:
        h: (R, d).
        norm: parameters and running statistics; the latter are changed in training.
        around: what is computed besides. Probabilities are 0 in evaluation.
        real: rows that are no padding; None: all. Padding is normalised by the statistics of the others.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (R, d).

    Raises:
        ValueError: shapes do not fit each other, a probability is outside [0, 1], or ``act`` is unknown.
    """
    if h.dim() != 2 or norm.running_mean.shape != h.shape[1:]:
        raise ValueError(f"h must be (R, {norm.running_mean.numel()}), received {tuple(h.shape)}")
    for name, other in (("added", around.added), ("residual", around.residual)):
        if other is not None and other.shape != h.shape:
            raise ValueError(f"{name} must be {tuple(h.shape)} as h, received {tuple(other.shape)}")
    for p in (around.added_dropout, around.dropout):
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability must lie in [0, 1], received {p}")
    if around.act not in ("identity", "relu"):
        raise ValueError(f"act must be 'identity' or 'relu', received {around.act!r}")
    if real is not None and real.mask.shape != h.shape[:1]:
        raise ValueError(f"real must have one entry for each of {h.shape[0]} rows, received {tuple(real.mask.shape)}")
    if backend == "auto" and has_triton(h):
        backend = "gpu"
    return choose("residual_norm", backend, _IMPLEMENTATIONS)(h, norm, around, real)
