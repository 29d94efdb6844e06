"""Linear maps of few rows: torch's product forward, one Triton kernel backward (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    from graphbench.ops.gpu_launch import has_kernels, span_of, triton_type, unit_stride, wide_of
except ImportError as missing:
    raise ImportError("backend 'gpu' of linear needs Triton: pip install triton") from missing

from graphbench.ops.backend import first_order
from graphbench.ops.linear import cpu
from graphbench.ops.linear.gpu_kernels import backward

# Rows and channels up to which three products cost less than their launches.
FEW, WIDEST = 2048, 512
# Rows, channels in and channels out of a tile; warps and stages. 64 rows spill registers.
ROWS, SPAN_IN, SPAN_OUT, WARPS, STAGES = 32, 32, 32, 4, 2


def linear_and_rows(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_and_rows`; many rows, half precision and autocast go through torch code.

    Raises:
        ValueError: the tensors lie on a device that Triton cannot reach.
    """
    capable = has_kernels("linear", h) and 0 < len(h) <= FEW and 0 < max(weight.shape) <= WIDEST
    alike = {x.dtype for x in (h, weight, bias) if x is not None} in ({torch.float32}, {torch.float64})
    if not capable or not alike or not min(weight.shape) or torch.is_autocast_enabled(h.device.type):
        return cpu.linear_and_rows(h, weight, bias, relu)
    result: tuple[Tensor, Tensor] = _Linear.apply(unit_stride(h), weight.contiguous(), bias, relu)  # type: ignore[no-untyped-call]
    return result


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


class _Linear(cpu.Linear):
    """With all gradients from one kernel."""

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, of_rows: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return of_rows, None, None, None
        h, weight, out = ctx.saved_tensors
        grad, wanted = unit_stride(grad), ctx.needs_input_grad[0]
        plus = h if of_rows is None else unit_stride(of_rows)
        known = constants(weight.shape[1], weight.shape[0], h.dtype)
        rows, columns = -(-len(h) // ROWS), -(-weight.shape[1] // known["SPAN_IN"])
        dh = h.new_empty(h.shape) if wanted else h
        dweight, dbias = torch.empty_like(weight), h.new_empty(len(weight))
        tiles = columns * (-(-len(weight) // known["SPAN_OUT"]) + (rows if wanted else 0))
        with torch.cuda.device_of(h):
            backward[(tiles,)](
                h, weight, grad if out is None else out, grad, plus, dh, dweight, dbias, len(h), h.stride(0),
                grad.stride(0), plus.stride(0), RELU=out is not None, OF_ROWS=wanted, PLUS=of_rows is not None, **known,
            )  # fmt: skip
        return dh if wanted else None, dweight, dbias if ctx.needs_input_grad[2] else None, None
