"""Layer normalisation by torch's operations."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.dropout import dropout


def layer_norm(h: Tensor, weight: Tensor, bias: Tensor, added: Tensor | None, p: float, eps: float) -> Tensor:
    """See :func:`graphbench.ops.layer_norm.layer_norm`."""
    if added is not None:
        h = h + (dropout(added, p) if p else added)
    return F.layer_norm(h, weight.shape, weight, bias, eps)
