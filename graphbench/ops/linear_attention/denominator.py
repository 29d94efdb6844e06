"""The denominator of weights that may cancel: kept away from zero (see the README)."""

from __future__ import annotations

import torch
from torch import Tensor

FLOOR = 0.01
"""Least size of a row's sum of weights, as a share of what the sum of their absolute values can at most be."""


def away_from_zero(total: Tensor, bound: Tensor) -> Tensor:
    """``total`` with its sign and a size of at least ``FLOOR * bound``; 1 where both are 0.

    Args:
        total: sum of weights of either sign.
        bound: what the sum of their absolute values can at most be, of the same shape.
    """
    kept = torch.where(total < 0, -1.0, 1.0) * torch.maximum(total.abs(), FLOOR * bound)
    return torch.where(kept == 0, 1.0, kept)
