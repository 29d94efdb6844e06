"""Sums of gradients in one Triton kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.fan_out import cpu
from graphbench.ops.fan_out.gpu_kernels import MOST, add_all
from graphbench.ops.gpu_launch import has_kernels, triton_type, wide_of
from graphbench.structures.first_order import first_order

# Entries of a program.
ENTRIES = 1024


def fan_out(x: Tensor, uses: int) -> tuple[Tensor, ...]:
    """See :func:`graphbench.ops.fan_out.fan_out`; for more than four uses, and half precision, autograd adds."""
    if not has_kernels("fan_out", x) or uses > MOST or x.dtype not in (torch.float32, torch.float64) or not x.numel():
        return cpu.fan_out(x, uses)
    return _FanOut.apply(x, uses)  # type: ignore[no-untyped-call]


class _FanOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, uses: int) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(x.view_as(x) for _ in range(uses))

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        arrived = [grad.contiguous() for grad in grads if grad is not None]
        if len(arrived) < 2:
            return (arrived[0] if arrived else None), None
        out = torch.empty_like(arrived[0])
        inputs = arrived + [arrived[0]] * (MOST - len(arrived))
        with torch.cuda.device_of(out):
            add_all[(-(-out.numel() // ENTRIES),)](
                *inputs, out, out.numel(), COUNT=len(arrived), ENTRIES=ENTRIES, ACC=triton_type(wide_of(out.dtype)),
                enable_fp_fusion=True,
            )  # fmt: skip
        return out, None
