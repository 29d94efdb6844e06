"""Layer normalisation as the equation, row by row."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.dropout import dropout


def layer_norm(h: Tensor, weight: Tensor, bias: Tensor, added: Tensor | None, p: float, eps: float) -> Tensor:
    """See :func:`graphbench.ops.layer_norm.layer_norm`."""
    x = h if added is None else h + (dropout(added, p) if p else added)
    rows = []
    for row in x:
        centred = row - row.mean()
        rows.append(centred / (centred.square().mean() + eps).sqrt() * weight + bias)
    return torch.stack(rows) if rows else x * weight + bias
