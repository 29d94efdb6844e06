"""The sine of a linear map: products by torch, everything else in one Triton kernel each way (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

try:
    from graphbench.ops.gpu_launch import has_kernels, span_of, triton_type, wide_of
except ImportError as missing:
    raise ImportError("backend 'gpu' of sine_linear needs Triton: pip install triton") from missing

from graphbench.ops.sine_linear.gpu_kernels import backward, forward

# Rows and columns of a tile.
ROWS, COLUMNS = 64, 64


def sine_linear(x: Tensor, weight: Tensor, bias: Tensor, frequency: Tensor) -> Tensor:
    """See :func:`graphbench.ops.sine_linear.sine_linear`; types that differ go through torch code.

    Raises:
        ValueError: the tensors lie on a device that Triton cannot reach.
    """
    alike = len({each.dtype for each in (x, weight, bias, frequency)}) == 1
    if not has_kernels("sine_linear", x) or not alike or not x.numel():
        return torch.sin(frequency * F.linear(x, weight, bias))
    result: Tensor = _SineLinear.apply(x, weight, bias, frequency)  # type: ignore[no-untyped-call]
    return result


def constants(width: int, dtype: torch.dtype) -> dict[str, Any]:
    """What is known when a kernel is compiled."""
    return {
        "WIDTH": width,
        "SPAN": min(COLUMNS, span_of(width)),
        "ROWS": ROWS,
        "ACC": triton_type(wide_of(dtype)),
        "num_warps": 4,
        "enable_fp_fusion": True,
    }


class _SineLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, frequency: Tensor) -> Tensor:
        mapped = F.linear(x, weight, bias)
        out, known = torch.empty_like(mapped), constants(mapped.shape[1], mapped.dtype)
        grid = (-(-len(mapped) // ROWS), -(-mapped.shape[1] // known["SPAN"]))
        with torch.cuda.device_of(x):
            forward[grid](mapped, frequency, out, len(mapped), **known)
        ctx.save_for_backward(x, weight, frequency, mapped)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, frequency, mapped = ctx.saved_tensors
        grad, dmapped, known = grad.contiguous(), torch.empty_like(mapped), constants(mapped.shape[1], mapped.dtype)
        tiles = -(-len(mapped) // ROWS)
        parts = mapped.new_empty(tiles, 2, mapped.shape[1], dtype=wide_of(mapped.dtype))
        with torch.cuda.device_of(x):
            backward[tiles, -(-mapped.shape[1] // known["SPAN"])](
                mapped, frequency, grad, dmapped, parts, len(mapped), **known
            )
        dbias, dfrequency = parts.sum(0).to(mapped.dtype).unbind(0)
        return dmapped @ weight if ctx.needs_input_grad[0] else None, dmapped.t() @ x, dbias, dfrequency
