"""Linear maps of narrow rows: one Triton kernel or torch's product forward, one kernel or two backward (README)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import has_kernels, product_type, span_of, triton_type, unit_stride, whole_tiles, wide_of
from graphbench.ops.gpu_shares import add_up
from graphbench.ops.linear import cpu
from graphbench.ops.linear.gpu_kernels import linear_backward, linear_forward
from graphbench.structures.late_sums import Shares, defer

# Entries of a weight up to which the gradients cost no more than torch's; rows from which that takes reading them 16
# bytes at a time.
LARGEST, MANY, ALIGNED = 48 * 1024, 2048, 4
# Rows up to which the forward pass is the kernel's, rows and channels out of its tiles, channels in at a time.
FORWARD_MOST, FORWARD_ROWS, FORWARD_OUT, FORWARD_IN = 4096, 32, 32, 64
# Of the backward pass: rows, channels in and channels out of a tile; rows that a sum over rows takes at a time; warps,
# as in the forward pass, and stages.
ROWS, SPAN_IN, SPAN_OUT, DEPTH, WARPS, STAGES = 64, 32, 32, 32, 4, 3
# Rows up to which a sum over them is one program's. More are cut into shares, of so many rows at least, most of these,
# and fewer where the sums are large.
FEW, SHARE, SHARES, TILES = 256, 64, 64, 1024


def linear_and_rows(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_and_rows`; large weights, half precision and autocast take torch code."""
    if not _reaches(h, [weight, *([] if bias is None else [bias])], (len(weight), h.shape[1])):
        return cpu.linear_and_rows(h, weight, bias, relu)
    bias = None if bias is None else bias.contiguous()
    arguments = (unit_stride(h), weight.contiguous(), bias, relu, cpu.Passes(product, gradients))
    return cpu.Linear.apply(*arguments)  # type: ignore[no-untyped-call]


def linear_parts(h: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_parts`; what goes through torch code is as above."""
    f, d = weights[0].shape
    if not _reaches(h, [*weights, *biases], (f * len(weights), d)):
        return cpu.linear_parts(h, weights, biases)
    arguments = (unit_stride(h), gradients, *weights, *biases)
    return cpu.LinearParts.apply(*arguments)  # type: ignore[no-untyped-call]


def _reaches(h: Tensor, parameters: Sequence[Tensor], shape: tuple[int, int]) -> bool:
    capable = has_kernels("linear", h) and len(h) > 0 and 0 < shape[0] * shape[1] <= LARGEST
    aligned = len(h) < MANY or all(channels % ALIGNED == 0 for channels in shape)
    alike = {x.dtype for x in (h, *parameters)} in ({torch.float32}, {torch.float64})
    return capable and aligned and alike and not torch.is_autocast_enabled(h.device.type)


def constants(channels_in: int, channels_out: int, dtype: torch.dtype) -> dict[str, Any]:
    """Constants that are known when the kernel of products is compiled."""
    return {
        "IN": channels_in,
        "OUT": channels_out,
        "SPAN_IN": min(SPAN_IN, span_of(channels_in)),
        "SPAN_OUT": min(SPAN_OUT, span_of(channels_out)),
        "ROWS": ROWS,
        "DEPTH": DEPTH,
        "DOT": product_type(dtype),
        "ACC": triton_type(wide_of(dtype)),
        "num_warps": WARPS,
        "num_stages": STAGES,
        "enable_fp_fusion": True,
    }


def product(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """Forward pass of few rows in one kernel, see :func:`graphbench.ops.linear.cpu.product`, which many rows take."""
    if len(h) > FORWARD_MOST:
        return cpu.product(h, weight, bias, relu)
    f, d = weight.shape
    out = h.new_empty(len(h), f)
    with torch.cuda.device_of(h):
        linear_forward[-(-len(h) // FORWARD_ROWS), -(-f // FORWARD_OUT)](
            h, weight, weight if bias is None else bias, out, len(h), h.stride(0), BIAS=bias is not None, RELU=relu,
            IN=d, OUT=f, DEPTH=min(FORWARD_IN, span_of(d)), ROWS=FORWARD_ROWS, SPAN_OUT=FORWARD_OUT,
            DOT=product_type(h.dtype), ACC=triton_type(wide_of(h.dtype)), num_warps=WARPS, enable_fp_fusion=True,
        )  # fmt: skip
    return out


def gradients(
    h: Tensor,
    weight: Tensor,
    out: Tensor | None,
    grad: Tensor,
    of_rows: Tensor | None,
    wanted: tuple[bool, bool],
    parameters: Sequence[Tensor] = (),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """All gradients from one or two kernels, see :func:`graphbench.ops.linear.cpu.gradients`."""
    grad = unit_stride(grad)
    plus = h if of_rows is None else unit_stride(of_rows)
    f, d = weight.shape
    known = constants(d, f, h.dtype)
    columns, lines = -(-d // known["SPAN_IN"]), -(-f // known["SPAN_OUT"])
    share = _share(len(h), columns * lines)
    shares = -(-len(h) // share)
    dh = h.new_empty(h.shape) if wanted[0] else h
    parts = h.new_empty(shares, f * d + f)
    tiles = columns * (lines * shares + (-(-len(h) // ROWS) if wanted[0] else 0))
    with torch.cuda.device_of(h):
        linear_backward[(tiles,)](
            h, weight, grad if out is None else out, grad, plus, dh, parts, len(h), share, h.stride(0),
            grad.stride(0), plus.stride(0), RELU=out is not None, OF_ROWS=wanted[0], PLUS=of_rows is not None, **known,
        )  # fmt: skip
    of_rows = dh if wanted[0] else None
    if shares > 1 and defer(parts, parameters, add_up):
        return of_rows, None, None
    sums = parts[0] if shares == 1 else add_up([Shares(parts, [parts[0]])])[0][0]
    return of_rows, sums[: f * d].view(f, d), sums[f * d :] if wanted[1] else None


def _share(rows: int, tiles: int) -> int:
    """Rows of a share, a multiple of what is summed at a time, of a gradient of so many tiles."""
    if rows <= FEW:
        return rows
    most = min(SHARES, max(1, TILES // tiles), -(-rows // SHARE))
    return whole_tiles(rows, most, DEPTH)
