"""Mixtures in one Triton kernel forward; one and a sum backward (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.blend import cpu
from graphbench.ops.blend.gpu_kernels import blend_backward, blend_forward
from graphbench.ops.gpu_launch import has_kernels, triton_type, wide_of
from graphbench.structures.first_order import first_order

# Entries of a program.
ENTRIES = 1024


def blend(a: Tensor, b: Tensor, gamma: Tensor) -> Tensor:
    """See :func:`graphbench.ops.blend.blend`; half precision goes through torch code."""
    alike = {x.dtype for x in (a, b, gamma)} in ({torch.float32}, {torch.float64})
    if not has_kernels("blend", a) or not alike or not a.numel():
        return cpu.blend(a, b, gamma)
    return _Blend.apply(a.contiguous(), b.contiguous(), gamma)  # type: ignore[no-untyped-call]


def constants(dtype: torch.dtype) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled."""
    return {"ENTRIES": ENTRIES, "ACC": triton_type(wide_of(dtype)), "num_warps": 4, "enable_fp_fusion": True}


class _Blend(torch.autograd.Function):
    """Saves its inputs."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, gamma: Tensor) -> Tensor:
        out = torch.empty_like(a)
        with torch.cuda.device_of(a):
            blend_forward[(-(-a.numel() // ENTRIES),)](a, b, gamma, out, a.numel(), **constants(a.dtype))
        ctx.save_for_backward(a, b, gamma)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, gamma = ctx.saved_tensors
        programs, grad = -(-a.numel() // ENTRIES), grad.contiguous()
        da, db, parts = torch.empty_like(a), torch.empty_like(b), a.new_empty(programs)
        with torch.cuda.device_of(a):
            blend_backward[(programs,)](a, b, gamma, grad, da, db, parts, a.numel(), **constants(a.dtype))
        return da, db, parts.sum() if ctx.needs_input_grad[2] else None
