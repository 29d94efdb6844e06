"""Layer normalisation in Triton kernels: one forward, one and a sum backward (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import constants_of, draw_seed, has_kernels, span_of, unit_stride, whole_tiles
from graphbench.ops.gpu_shares import summed
from graphbench.ops.layer_norm import cpu
from graphbench.ops.layer_norm.gpu_kernels import layer_norm_backward, layer_norm_forward
from graphbench.structures.first_order import first_order

# Entries of a tile, channels that one program holds at most, and programs that share the rows of a backward pass.
ENTRIES, WIDEST, PROGRAMS = 1024, 1024, 256


def layer_norm(h: Tensor, weight: Tensor, bias: Tensor, added: Tensor | None, p: float, eps: float) -> Tensor:
    """See :func:`graphbench.ops.layer_norm.layer_norm`; half precision, autocast and wide rows take torch code."""
    inputs = [h, weight, bias, *([] if added is None else [added])]
    alike = {x.dtype for x in inputs} in ({torch.float32}, {torch.float64})
    capable = has_kernels("layer_norm", h) and alike and h.numel() > 0 and h.shape[1] <= WIDEST
    if not capable or p == 1 or torch.is_autocast_enabled(h.device.type):
        return cpu.layer_norm(h, weight, bias, added, p, eps)
    seed = draw_seed(h.device, 0.0 if added is None else p)
    added = None if added is None else unit_stride(added)
    return _LayerNorm.apply(unit_stride(h), weight, bias, added, seed, p, eps)  # type: ignore[no-untyped-call]


def constants(width: int, dtype: torch.dtype, p: float, eps: float) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled."""
    known = constants_of(width, dtype, max(1, ENTRIES // span_of(width)))
    return {"EPS": eps, "P": float(p), "KEEP": 1.0 / (1.0 - p)} | known


class _LayerNorm(torch.autograd.Function):
    """Saves what is normalised."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        added: Tensor | None,
        seed: Tensor,
        p: float,
        eps: float,
    ) -> Tensor:
        out, known = h.new_empty(h.shape), constants(h.shape[1], h.dtype, p, eps)
        x, more = (h, h) if added is None else (h.new_empty(h.shape), added)
        with torch.cuda.device_of(h):
            layer_norm_forward[(-(-len(h) // known["ROWS"]),)](
                h, more, weight.contiguous(), bias.contiguous(), seed, x, out, len(h), h.stride(0), more.stride(0),
                ADDED=added is not None, **known,
            )  # fmt: skip
        ctx.save_for_backward(x, weight, seed)
        ctx.known, ctx.parameters = known, (weight, bias)
        ctx.dropped = added is not None and p > 0
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, seed = ctx.saved_tensors
        grad, rows, known = unit_stride(grad), len(x), ctx.known
        share = whole_tiles(rows, PROGRAMS, known["ROWS"])
        shares = -(-rows // share)
        dh = x.new_empty(x.shape)
        dadded = x.new_empty(x.shape) if ctx.dropped else dh
        parts = x.new_empty(shares, 2 * x.shape[1])
        with torch.cuda.device_of(x):
            layer_norm_backward[(shares,)](
                x, weight.contiguous(), seed, grad, dh, dadded, parts, rows, share, x.stride(0), grad.stride(0),
                DROPPED=ctx.dropped, **known,
            )  # fmt: skip
        of_h, of_weight, of_bias, of_added = ctx.needs_input_grad[:4]
        gradients = summed(parts, ctx.parameters) if of_weight or of_bias else (None, None)
        return dh if of_h else None, *gradients, dadded if of_added else None, None, None, None
