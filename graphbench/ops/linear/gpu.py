"""Linear maps of few rows: torch's product forward, one Triton kernel backward (README)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import has_kernels, span_of, triton_type, unit_stride, wide_of
from graphbench.ops.linear import cpu
from graphbench.ops.linear.gpu_kernels import backward

# Rows and channels up to which three products cost less than their launches.
FEW, WIDEST = 2048, 512
# Rows, channels in and channels out of a tile; warps and stages. 64 rows spill registers.
ROWS, SPAN_IN, SPAN_OUT, WARPS, STAGES = 32, 32, 32, 4, 2


def linear_and_rows(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_and_rows`; many rows, half precision and autocast take torch code."""
    if not _reaches(h, [weight, *([] if bias is None else [bias])], weight.shape):
        return cpu.linear_and_rows(h, weight, bias, relu)
    arguments = (unit_stride(h), weight.contiguous(), bias, relu, gradients)
    return cpu.Linear.apply(*arguments)  # type: ignore[no-untyped-call]


def linear_parts(h: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_parts`; what goes through torch code is as above."""
    f, d = weights[0].shape
    if not _reaches(h, [*weights, *biases], (f * len(weights), d)):
        return cpu.linear_parts(h, weights, biases)
    arguments = (unit_stride(h), gradients, *weights, *biases)
    return cpu.LinearParts.apply(*arguments)  # type: ignore[no-untyped-call]


def _reaches(h: Tensor, parameters: Sequence[Tensor], shape: Sequence[int]) -> bool:
    capable = has_kernels("linear", h) and 0 < len(h) <= FEW and 0 < max(shape) <= WIDEST and min(shape) > 0
    alike = {x.dtype for x in (h, *parameters)} in ({torch.float32}, {torch.float64})
    return capable and alike and not torch.is_autocast_enabled(h.device.type)


def constants(channels_in: int, channels_out: int, dtype: torch.dtype) -> dict[str, Any]:
    """What is known when the kernel is compiled."""
    return {
        "IN": channels_in,
        "OUT": channels_out,
        "SPAN_IN": min(SPAN_IN, span_of(channels_in)),
        "SPAN_OUT": min(SPAN_OUT, span_of(channels_out)),
        "ROWS": ROWS,
        "ACC": triton_type(wide_of(dtype)),
        "num_warps": WARPS,
        "num_stages": STAGES,
        "enable_fp_fusion": True,
    }


def gradients(
    h: Tensor,
    weight: Tensor,
    out: Tensor | None,
    grad: Tensor,
    of_rows: Tensor | None,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """All gradients from one kernel, see :func:`graphbench.ops.linear.cpu.gradients`."""
    grad = unit_stride(grad)
    plus = h if of_rows is None else unit_stride(of_rows)
    known = constants(weight.shape[1], weight.shape[0], h.dtype)
    rows, columns = -(-len(h) // ROWS), -(-weight.shape[1] // known["SPAN_IN"])
    dh = h.new_empty(h.shape) if wanted[0] else h
    dweight, dbias = torch.empty_like(weight), h.new_empty(len(weight))
    tiles = columns * (-(-len(weight) // known["SPAN_OUT"]) + (rows if wanted[0] else 0))
    with torch.cuda.device_of(h):
        backward[(tiles,)](
            h, weight, grad if out is None else out, grad, plus, dh, dweight, dbias, len(h), h.stride(0),
            grad.stride(0), plus.stride(0), RELU=out is not None, OF_ROWS=wanted[0], PLUS=of_rows is not None, **known,
        )  # fmt: skip
    return dh if wanted[0] else None, dweight, dbias if wanted[1] else None
