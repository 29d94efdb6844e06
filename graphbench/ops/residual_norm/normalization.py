"""Parameters of a batch normalisation, and what is computed together with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from graphbench.structures.capacity import RealRows

Activation = Literal["identity", "relu"]


@dataclass(frozen=True, eq=False)
class Normalization:
    """Batch normalisation of d channels.

    Attributes:
        weight: (d,).
        bias: (d,).
        running_mean: (d,), of evaluation.
        running_var: (d,), unbiased.
        training: normalise by the statistics of the rows, and move the running ones towards them.
        momentum: share of a step in the running statistics.
        eps: number added to the variance.
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    training: bool
    momentum: float = 0.1
    eps: float = 1e-5


@dataclass(frozen=True, eq=False)
class Fusion:
    """Sum, activation, dropout and residual that are computed together with a normalisation.

    Attributes:
        added: (R, d) added to the input, or None.
        added_dropout: probability of dropping an entry of it.
        act: applied to what is normalised.
        dropout: probability of dropping an entry of that.
        residual: (R, d) added in the end, or None.
    """

    added: Tensor | None = None
    added_dropout: float = 0.0
    act: Activation = "identity"
    dropout: float = 0.0
    residual: Tensor | None = None


NO_FUSION = Fusion()
"""Nothing but the normalisation."""


@dataclass(frozen=True, eq=False)
class NormInput:
    """One of several normalisations that are computed together; fields as arguments of ``residual_norm``.

    Attributes:
        h: (R, d).
        norm: parameters and running statistics.
        fused: sum, activation, dropout and residual that are computed besides.
        real: rows that are no padding; None: all.
    """

    h: Tensor
    norm: Normalization
    fused: Fusion = NO_FUSION
    real: RealRows | None = None
