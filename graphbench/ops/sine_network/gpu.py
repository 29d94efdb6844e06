"""Networks of sines in one Triton kernel each way (README)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import has_kernels, span_of, triton_type, wide_of
from graphbench.ops.gpu_shares import summed
from graphbench.ops.sine_network import cpu
from graphbench.ops.sine_network.gpu_kernels import sine_network_backward, sine_network_forward
from graphbench.structures.first_order import first_order

# Hidden channels, and columns of z, that fit into a tile.
WIDEST = 64
# Positions and channels of a tile: few, so that many programs share what is little work.
ROWS, COLUMNS = 16, 64
# Warps of a program.
WARPS = 8


def sine_network(z: Tensor, hidden: Sequence[tuple[Tensor, Tensor]], out: Tensor, frequency: Tensor) -> Tensor:
    """See :func:`graphbench.ops.sine_network.sine_network`; wider networks go through torch code."""
    parameters = [*(each for layer in hidden for each in layer), out, frequency]
    alike = len({x.dtype for x in (z, *parameters)}) == 1 and z.dtype in (torch.float32, torch.float64)
    capable = has_kernels("sine_network", z) and alike and z.numel() > 0
    if not capable or max(len(frequency), z.shape[1]) > WIDEST:
        return cpu.sine_network(z, hidden, out, frequency)
    return _SineNetwork.apply(z.contiguous(), *parameters)  # type: ignore[no-untyped-call]


def constants(columns: int, width: int, inner: int, channels: int, dtype: torch.dtype) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled; the last parameters begin at ``OUT`` and ``FREQUENCY``."""
    first, step = width * columns + width, width * width + width
    return {
        "E": columns,
        "W": width,
        "C": channels,
        "INNER": inner,
        "OUT": first + inner * step,
        "FREQUENCY": first + inner * step + channels * width,
        "SPAN_E": span_of(columns),
        "SPAN_W": span_of(width),
        "SPAN_C": COLUMNS,
        "ROWS": ROWS,
        "ACC": triton_type(wide_of(dtype)),
        "num_warps": WARPS,
        "num_stages": 1,
        "enable_fp_fusion": True,
    }


class _SineNetwork(torch.autograd.Function):
    """Saves what every hidden layer maps to, before its sine."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, *parameters: Tensor) -> Tensor:
        flat = torch.cat([parameter.reshape(-1) for parameter in parameters])
        inner, channels, width = len(parameters) // 2 - 2, len(parameters[-2]), len(parameters[-1])
        known = constants(z.shape[1], width, inner, channels, z.dtype)
        out, mapped = z.new_empty(len(z), channels), z.new_empty(inner + 1, len(z), width)
        with torch.cuda.device_of(z):
            sine_network_forward[-(-len(z) // ROWS), -(-channels // COLUMNS)](z, flat, mapped, out, len(z), **known)
        ctx.save_for_backward(z, flat, mapped)
        ctx.parameters, ctx.known = parameters, known
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, flat, mapped = ctx.saved_tensors
        tiles, shares, grad = -(-len(z) // ROWS), -(-grad.shape[1] // COLUMNS), grad.contiguous()
        parts = flat.new_empty(tiles, len(flat))
        with torch.cuda.device_of(z):
            sine_network_backward[tiles, 1 + shares](z, flat, mapped, grad, parts, len(z), len(flat), **ctx.known)
        return None, *summed(parts, ctx.parameters)
