"""The gradient of a loss with respect to itself."""

from __future__ import annotations

import functools

import torch
from torch import Tensor


@functools.cache  # recorded graphs read what is kept here
def unit_gradient(dtype: torch.dtype, device: torch.device) -> Tensor:
    """() 1, with which a backward pass begins on a device: made once, where ``backward`` would make one in every step.

    An operator that is handed this very tensor need not multiply by it. Nobody may write onto it.
    """
    return torch.ones((), dtype=dtype).to(device)  # waits: trainings on other streams read it, too
