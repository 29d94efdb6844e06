"""Dropout as torch has it."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout(x: Tensor, p: float) -> Tensor:
    """See :func:`graphbench.ops.dropout.dropout`."""
    return torch.dropout(x, p, True)
