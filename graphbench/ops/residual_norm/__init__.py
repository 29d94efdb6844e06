"""Batch normalisation with what stands around it in a block: a sum before, activation, dropout, a residual after."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.residual_norm import cpu, reference
from graphbench.ops.residual_norm.cpu import batch_norm
from graphbench.ops.residual_norm.normalization import NO_FUSION, Activation, Fusion, Normalization, NormInput
from graphbench.structures.capacity import RealRows

__all__ = [
    "NO_FUSION",
    "Activation",
    "Fusion",
    "NormInput",
    "Normalization",
    "batch_norm",
    "residual_norm",
    "residual_norm_sum",
    "residual_norms",
]


_IMPLEMENTATIONS = Backends(reference.residual_norms, cpu.residual_norms, gpu=True)


def residual_norm(
    h: Tensor,
    norm: Normalization,
    fused: Fusion = NO_FUSION,
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
        fused: sum, activation, dropout and residual computed besides. Probabilities are 0 in evaluation.
        real: rows that are no padding; None: all. Padding is normalised by the statistics of the others.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (R, d).

    Raises:
        ValueError: shapes do not fit each other, a probability is outside [0, 1], or ``act`` is unknown.
    """
    return _computed([NormInput(h, norm, fused, real)], False, backend)[0]


def residual_norms(inputs: Sequence[NormInput], *, backend: str = "auto") -> list[Tensor]:
    """:func:`residual_norm` of several inputs, whose numbers of rows may differ: on a GPU in the launches of one.

    Args:
        inputs: arguments of each, independent of one another: no running statistics belong to two of them.
        backend: see :func:`residual_norm`.

    Returns:
        The output of each.

    Raises:
        ValueError: as there.
    """
    return _computed(inputs, False, backend) if inputs else []


def residual_norm_sum(inputs: Sequence[NormInput], *, backend: str = "auto") -> Tensor:
    """The sum of :func:`residual_norm` of several inputs of the same rows: on a GPU in the launches of one.

    Args:
        inputs: inputs of :func:`residual_norms`, at least one, (R, d) each.
        backend: see :func:`residual_norm`.

    Returns:
        (R, d).

    Raises:
        ValueError: as there, there is no input, or shapes differ.
    """
    if not inputs or any(each.h.shape != inputs[0].h.shape for each in inputs):
        shapes = [tuple(each.h.shape) for each in inputs]
        raise ValueError(f"inputs of a sum must have the same shape, received {shapes}")
    return _computed(inputs, True, backend)[0]


def _computed(inputs: Sequence[NormInput], summed: bool, backend: str) -> list[Tensor]:
    for each in inputs:
        _check(each)
    return _IMPLEMENTATIONS.choose(backend, inputs[0].h)(inputs, summed)


def _check(given: NormInput) -> None:
    h, norm, fused, real = given.h, given.norm, given.fused, given.real
    if h.dim() != 2 or norm.running_mean.shape != h.shape[1:]:
        raise ValueError(f"h must be (R, {norm.running_mean.numel()}), received {tuple(h.shape)}")
    for name, other in (("added", fused.added), ("residual", fused.residual)):
        if other is not None and other.shape != h.shape:
            raise ValueError(f"{name} must be {tuple(h.shape)} as h, received {tuple(other.shape)}")
    for p in (fused.added_dropout, fused.dropout):
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability must lie in [0, 1], received {p}")
    if fused.act not in ("identity", "relu"):
        raise ValueError(f"act must be 'identity' or 'relu', received {fused.act!r}")
    if real is not None and real.mask.shape != h.shape[:1]:
        raise ValueError(f"real must have one entry for each of {h.shape[0]} rows, received {tuple(real.mask.shape)}")
