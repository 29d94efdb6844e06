"""Numbers of the Adam update."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class AdamRule:
    """Hyperparameters of one group of parameters.

    Attributes:
        lr: learning rate: a number, or a 0-d float32 tensor, which may lie on the parameters' device.
        betas: decay of the averages of gradients and of their squares per step, at least 0 and below 1.
        eps: added to the root of the averaged squares.
        weight_decay: factor of the squared norm's gradient, or fraction of a parameter removed per step times ``lr``.
        decoupled: whether the weight decay is the latter (AdamW).
    """

    lr: float | Tensor
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False
