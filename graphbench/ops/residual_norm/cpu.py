"""Batch normalisation by torch's kernel, or over the real rows of a padded batch; the rest one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from graphbench.ops.dropout import dropout
from graphbench.ops.residual_norm.normalization import Normalization, NormInput
from graphbench.structures.capacity import RealRows


def residual_norms(inputs: Sequence[NormInput], summed: bool) -> list[Tensor]:
    """The output of each, see :func:`graphbench.ops.residual_norm.residual_norms`; ``summed``: their sum alone."""
    outputs = [residual_norm(each) for each in inputs]
    return [reduce(torch.add, outputs)] if summed else outputs


def residual_norm(given: NormInput) -> Tensor:
    """See :func:`graphbench.ops.residual_norm.residual_norm`."""
    h, norm, fused, real = given.h, given.norm, given.fused, given.real
    if fused.added is not None:
        h = h + dropout(fused.added, fused.added_dropout)
    out = batch_norm(h, norm) if real is None or not norm.training else _over_real_rows(h, norm, real)
    out = dropout(out.relu_() if fused.act == "relu" else out, fused.dropout)  # nobody else reads it: one copy less
    return out if fused.residual is None else fused.residual + out


def batch_norm(h: Tensor, norm: Normalization) -> Tensor:
    """Batch normalisation of (R, d) or (R, d, k) as torch has it, but for fewer than two rows."""
    batch_statistics = True if norm.training and h.shape[0] > 1 else False
    # PyTorch's backward pass reads weight and statistics as if they were contiguous.
    running, parameters = (norm.running_mean, norm.running_var), (norm.weight.contiguous(), norm.bias)
    if not batch_statistics:  # training writes to the running ones
        running = (norm.running_mean.contiguous(), norm.running_var.contiguous())
    return nn.functional.batch_norm(h, *running, *parameters, batch_statistics, norm.momentum, norm.eps)


def _over_real_rows(h: Tensor, norm: Normalization, real: RealRows) -> Tensor:
    """Training on a padded batch, whose number of real rows only the device knows."""
    wide = torch.float32 if h.dtype in (torch.float16, torch.bfloat16) else h.dtype
    count = real.count.to(wide)
    mean = real.select(h).sum(0, dtype=wide) / count.clamp(min=1)
    squares = real.select(h - mean).square().sum(0)
    var = squares / count.clamp(min=1)
    enough = count > 1
    with torch.no_grad():
        momentum = enough.to(norm.running_mean.dtype) * norm.momentum
        norm.running_mean.lerp_(mean.to(momentum.dtype), momentum)
        norm.running_var.lerp_((squares / (count - 1).clamp(min=1)).to(momentum.dtype), momentum)
    mean = torch.where(enough, mean, norm.running_mean.to(wide))
    scale = (torch.where(enough, var, norm.running_var.to(wide)) + norm.eps).rsqrt() * norm.weight
    return ((h - mean) * scale + norm.bias).to(h.dtype)
