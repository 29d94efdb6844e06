"""Batch normalisation and what stands around it, one formula after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from graphbench.ops.residual_norm.normalization import NormInput


def residual_norms(inputs: Sequence[NormInput], summed: bool) -> list[Tensor]:
    """The output of each, see :func:`graphbench.ops.residual_norm.residual_norms`; ``summed``: their sum alone."""
    outputs = [residual_norm(each) for each in inputs]
    return [reduce(torch.add, outputs)] if summed else outputs


def residual_norm(given: NormInput) -> Tensor:
    """See :func:`graphbench.ops.residual_norm.residual_norm`."""
    h, norm, fused, real = given.h, given.norm, given.fused, given.real
    x = h if fused.added is None else h + torch.dropout(fused.added, fused.added_dropout, True)
    rows = x if real is None else x[real.mask]
    mean, var = norm.running_mean.to(h.dtype), norm.running_var.to(h.dtype)
    if norm.training and len(rows) > 1:
        mean, var = rows.mean(0), rows.var(0, unbiased=False)
        for running, measured in ((norm.running_mean, mean), (norm.running_var, rows.var(0))):
            running.mul_(1 - norm.momentum).add_(measured.detach(), alpha=norm.momentum)
    out = (x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias
    out = torch.dropout(torch.relu(out) if fused.act == "relu" else out, fused.dropout, True)
    return out if fused.residual is None else fused.residual + out
