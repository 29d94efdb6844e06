"""Batch normalisation and what stands around it, one formula after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.residual_norm.normalization import Normalization, Surroundings
from graphbench.structures.capacity import RealRows


def residual_norm(h: Tensor, norm: Normalization, around: Surroundings, real: RealRows | None) -> Tensor:
    """See :func:`graphbench.ops.residual_norm.residual_norm`."""
    x = h if around.added is None else h + torch.dropout(around.added, around.added_dropout, True)
    rows = x if real is None else x[real.mask]
    mean, var = norm.running_mean.to(h.dtype), norm.running_var.to(h.dtype)
    if norm.training and len(rows) > 1:
        mean, var = rows.mean(0), rows.var(0, unbiased=False)
        for running, measured in ((norm.running_mean, mean), (norm.running_var, rows.var(0))):
            running.mul_(1 - norm.momentum).add_(measured.detach(), alpha=norm.momentum)
    out = (x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias
    out = torch.dropout(torch.relu(out) if around.act == "relu" else out, around.dropout, True)
    return out if around.residual is None else around.residual + out
