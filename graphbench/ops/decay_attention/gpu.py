"""Attention with a decay mask in Triton kernels: no padding, no mask and no weights in memory (README, "On a GPU").

Notation: N rows, H heads, T tiles.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.decay_attention.dense import dense
from graphbench.ops.decay_attention.gpu_kernels import decay_attention_backward, decay_attention_forward
from graphbench.ops.decay_attention.mask import Decay
from graphbench.ops.gpu_launch import (
    WIDEST,
    attention_constants,
    draw_seed,
    empty_parts,
    has_kernels,
    loadable,
    output_of,
    parts_of,
    row_tiles,
    wide_of,
)
from graphbench.ops.gpu_shares import summed
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order


def decay_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    index: Tensor,
    start: Tensor,
    mask: Decay,
    dropout_p: float,
    packed: Tensor | None = None,
) -> Tensor:
    """See :func:`graphbench.ops.decay_attention.decay_attention`.

    ``packed`` is (N, 3, H, d), of which q, k and v are views, or None.
    Half precision is read and written as it is and computed in float32. Heads wider than 128, and devices older than
    sm_80, go through the torch code.
    """
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    if not has_kernels("decay_attention", q) or max(q.shape[2], v.shape[2]) > WIDEST or dropout_p == 1:
        return dense(q, k, v, ragged, index, start, mask, dropout_p)
    seed = draw_seed(q.device, dropout_p)
    inputs = (packed.contiguous(), None, None) if packed is not None else [x.contiguous() for x in (q, k, v)]
    start = start.contiguous()
    with torch.autocast(q.device.type, enabled=False):
        result: Tensor = _Attention.apply(*inputs, start, index, ragged, mask, dropout_p, seed)  # type: ignore[no-untyped-call]
    return result


class _Attention(torch.autograd.Function):
    """Saves its inputs, its output and two numbers per row and head."""

    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        k: Tensor | None,
        v: Tensor | None,
        start: Tensor,
        index: Tensor,
        ragged: Ragged,
        mask: Decay,
        p: float,
        seed: Tensor,
    ) -> Tensor:
        inputs = (qkv, k, v)
        (q, k, v), parts = parts_of(*inputs)
        index = loadable(index.contiguous(), wide_of(v.dtype))
        constants = _constants(q, v, ragged, index, mask, p, parts)
        tiles = ragged.derived(row_tiles, constants["ROWS"])
        (out, exact), normalizer = output_of(v), start.new_empty(*q.shape[:2], 2, dtype=wide_of(v.dtype))
        with torch.cuda.device_of(q):
            decay_attention_forward[len(tiles), q.shape[1]](
                q, k, v, index, start, ragged.ptr, ragged.pair_ptr, tiles, out, exact, normalizer, seed,
                **constants,
            )  # fmt: skip
        ctx.save_for_backward(*inputs, start, exact, normalizer)
        ctx.index, ctx.ragged, ctx.mask, ctx.p, ctx.seed = index, ragged, mask, p, seed
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, start, out, normalizer = ctx.saved_tensors
        ragged, grad, gradients = ctx.ragged, grad.contiguous(), empty_parts(*inputs)
        (q, k, v), number = parts_of(*inputs)
        (dq, dk, dv), _ = parts_of(*gradients)
        constants = _constants(q, v, ragged, ctx.index, ctx.mask, ctx.p, number)
        tiles = ragged.derived(row_tiles, constants["ROWS"])
        parts = normalizer.new_empty(len(tiles), q.shape[1])
        with torch.cuda.device_of(q):
            decay_attention_backward[len(tiles), q.shape[1], 2](
                q, k, v, ctx.index, start, ragged.ptr, ragged.pair_ptr, tiles, out, grad, normalizer, dq, dk, dv,
                parts, ctx.seed, **constants,
            )  # fmt: skip
        dstart = summed(parts, [start])[0] if ctx.needs_input_grad[3] else None
        return *gradients, dstart, None, None, None, None, None


def _constants(
    q: Tensor, v: Tensor, ragged: Ragged, index: Tensor, mask: Decay, p: float, parts: int
) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled."""
    return attention_constants(q, v, ragged, p, parts) | {
        "LOG": mask.log_decay,
        "SLOPE": float(mask.slope),
        "END": float(mask.end or 0.0),
        "LINEAR": mask.kind == "linear",
        "ADDED": mask.mask_on == "probs",
        "FULL": mask.unreachable == "full",
        "CLOSED": mask.unreachable == "mask",
        "HOPS": not index.is_floating_point(),
    }
