"""Exact sparse flow in Triton kernels: memory linear in the rows, no flow is kept for the backward pass (README).

Notation: N rows, H heads, G graphs, d and e widths.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_blocks import Block
from graphbench.ops.gpu_launch import (
    blocks_on,
    draw_seed,
    has_kernels,
    operand_bytes,
    operand_type,
    span_of,
    tiles_of,
    triton_type,
    wide_of,
)
from graphbench.ops.segment import segment_sum
from graphbench.ops.sparse_flow import cpu, gpu_wide
from graphbench.ops.sparse_flow.gpu_backward import key_side, query_side
from graphbench.ops.sparse_flow.gpu_forward import tiled_rows
from graphbench.ops.sparse_flow.gpu_whole import whole_rows
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

# Columns of q, k or v that are multiplied at a time.
CHUNK = {2: 32, 4: 16, 8: 16}
# Wider heads would not fit the accumulators of the backward kernels.
_WIDEST = 256
# Every kernel rounds scores in a way of its own; the backward kernels take those this near to the reference for equal.
_TIE = {torch.bfloat16: 2.0**-18, torch.float32: 2.0**-19}
# Numbers per row and head that the backward kernels read; one more plane has the number of flows that are not 0.
_PLANES = 6
# Largest exponent of phi: sums of n terms of this size stay finite.
_LIMIT = {torch.float32: 69.0, torch.float64: 600.0}


def sparse_flow(
    q: Tensor,
    k: Tensor,
    q_friction: Tensor,
    k_friction: Tensor,
    v: Tensor,
    ragged: Ragged,
    lam: Tensor,
    alpha: float,
    dropout_p: float,
) -> Tensor:
    """See :func:`graphbench.ops.sparse_flow.sparse_flow`; ``lam`` is (G,).

    bfloat16 is multiplied as it is and accumulated in float32. float16 is widened before it is multiplied, because
    gradients of the friction exceed its range. Heads wider than 256, and devices older than sm_80, go through the torch
    code.
    """
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    if not has_kernels("sparse_flow", q) or max(q.shape[2], v.shape[2]) > _WIDEST:
        return cpu.sparse_flow(q, k, q_friction, k_friction, v, ragged, lam, alpha, dropout_p)
    kind = torch.promote_types(q.dtype, v.dtype)
    inputs = (x.to(kind).contiguous() for x in (q, k, q_friction, k_friction, v))
    lam = lam.to(wide_of(kind)).contiguous()
    seed = draw_seed(q.device, dropout_p)
    result: Tensor = _Flow.apply(*inputs, lam, ragged, alpha, dropout_p, seed)  # type: ignore[no-untyped-call]
    return result.to(v.dtype)


def counted_flow(
    q: Tensor, k: Tensor, q_friction: Tensor, k_friction: Tensor, v: Tensor, ragged: Ragged, lam: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.sparse_flow.counted_flow`: the output and (G,) flows that are not 0."""
    inputs = (q, k, q_friction, k_friction, v)
    if not q.numel() or not v.numel() or not has_kernels("sparse_flow", q) or max(q.shape[2], v.shape[2]) > _WIDEST:
        return cpu.counted_flow(*inputs, ragged, lam, alpha)
    kind = torch.promote_types(q.dtype, v.dtype)
    lam = lam.to(wide_of(kind)).contiguous()
    out, state = _forward(
        tuple(x.to(kind).contiguous() for x in inputs), lam, ragged, alpha, 0.0, draw_seed(q.device, 0.0)
    )
    return out.to(v.dtype), segment_sum(state[_PLANES].sum(0).unsqueeze(1), ragged).squeeze(1)


def _forward(
    inputs: tuple[Tensor, ...], lam: Tensor, ragged: Ragged, alpha: float, p: float, seed: Tensor
) -> tuple[Tensor, Tensor]:
    """Output, and (7, H, N) what the backward kernels rebuild flows from, with the number of flows that are not 0."""
    q, v = inputs[0], inputs[-1]
    out, state = torch.empty_like(v), lam.new_empty(_PLANES + 1, q.shape[1], q.shape[0])
    pointers = (*inputs, lam, ragged.ptr)
    numbers = (ragged.num_rows, seed)
    constants, heads, operand = _constants(q, v, p), q.shape[1], operand_bytes(q.dtype)
    constants["INV_ALPHA"] = 1 / alpha
    with torch.cuda.device_of(q):
        if gpu_wide.takes(q, v, ragged):
            gpu_wide.forward(inputs, lam, ragged, seed, out, state, *_wide_constants(constants))
            return out, state
        smaller = 0
        # Graphs of at most `keys` nodes are solved in registers, `rows` query rows at a time.
        for rows, keys, warps in blocks_on(q.device, "flow_whole")[operand].values():
            if smaller >= ragged.max_size:
                break
            tiles = ragged.derived(tiles_of, smaller, keys, rows)
            if len(tiles):
                whole_rows[len(tiles), heads](
                    *pointers, tiles, out, state, *numbers, **constants, ROWS=rows, KEYS=keys, num_warps=warps
                )
            smaller = keys
        rows, keys, warps = _block("flow_tiled", q, v)
        if smaller < ragged.max_size:
            tiles = ragged.derived(tiles_of, smaller, ragged.max_size, rows)
            tiled_rows[len(tiles), heads](
                *pointers, tiles, out, state, *numbers, **constants,
                E_SPAN=span_of(v.shape[2]), ROWS=rows, KEYS=keys, num_warps=warps,
            )  # fmt: skip
    return out, state


class _Flow(torch.autograd.Function):
    """Saves its inputs and seven numbers per row and head."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        q_friction: Tensor,
        k_friction: Tensor,
        v: Tensor,
        lam: Tensor,
        ragged: Ragged,
        alpha: float,
        p: float,
        seed: Tensor,
    ) -> Tensor:
        inputs = (q, k, q_friction, k_friction, v)
        out, state = _forward(inputs, lam, ragged, alpha, p, seed)
        ctx.save_for_backward(*inputs, lam, state)
        ctx.ragged, ctx.alpha, ctx.p, ctx.seed = ragged, alpha, p, seed
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, q_friction, k_friction, v, lam, state = ctx.saved_tensors
        ragged, grad = ctx.ragged, grad.contiguous()
        inputs = (q, k, q_friction, k_friction, v)
        gradients, row_dlam = tuple(map(torch.empty_like, inputs)), torch.empty_like(state[0])
        with torch.cuda.device_of(q):
            constants = _constants(q, v, ctx.p)
            if gpu_wide.takes(q, v, ragged):
                of_kernels = _wide_constants(constants | {"INV_ALPHA": 1 / ctx.alpha})
                gpu_wide.backward(inputs, lam, ragged, ctx.seed, grad, state, *of_kernels, gradients, row_dlam)
            else:
                _walk_back(inputs, lam, ragged, ctx.seed, grad, state, ctx.alpha, constants, gradients, row_dlam)
        dlam = segment_sum(row_dlam.sum(0), ragged) if ctx.needs_input_grad[5] else None
        return *gradients, dlam, None, None, None, None


def _walk_back(
    inputs: tuple[Tensor, ...], lam: Tensor, ragged: Ragged, seed: Tensor, grad: Tensor, state: Tensor, alpha: float,
    constants: dict[str, Any], gradients: tuple[Tensor, ...], row_dlam: Tensor,
) -> None:  # fmt: skip
    """Fills gradients of the inputs, and that of lam per row, by the kernels that store nothing about pairs."""
    q, v = inputs[0], inputs[-1]
    dq, dk, dqf, dkf, dv = gradients
    sums = state.new_empty(4, *state.shape[1:])
    pointers, numbers = (*inputs, lam, ragged.ptr), (ragged.num_rows, seed)
    constants = constants | {"D_SPAN": span_of(q.shape[2]), "TIE": _TIE.get(q.dtype, 0.0)}
    rows, keys, warps = _block("flow_query_side", q, v)
    tiles = ragged.derived(tiles_of, 0, ragged.max_size, rows)
    query_side[len(tiles), q.shape[1]](
        *pointers, tiles, grad, state, sums, dq, dqf, row_dlam, *numbers, **constants,
        INV_ALPHA=1 / alpha, ROWS=rows, KEYS=keys, num_warps=warps,
    )  # fmt: skip
    rows, keys, warps = _block("flow_key_side", q, v)
    tiles = ragged.derived(tiles_of, 0, ragged.max_size, keys)
    key_side[len(tiles), q.shape[1]](
        *pointers, tiles, grad, state, sums, dk, dkf, dv, *numbers, **constants,
        E_SPAN=span_of(v.shape[2]), ROWS=rows, KEYS=keys, num_warps=warps,
    )  # fmt: skip


def _constants(q: Tensor, v: Tensor, p: float) -> dict[str, Any]:
    accumulator = wide_of(q.dtype)
    wide = triton_type(accumulator)
    return {
        "SCALE": 1 / math.sqrt(q.shape[2]),
        "LIMIT": _LIMIT[accumulator],
        "P": p,
        "KEEP": 1 / (1 - p) if p < 1 else 0.0,
        "HEADS": q.shape[1],
        "D": q.shape[2],
        "E": v.shape[2],
        "DOT": operand_type(q.dtype),
        "ACC": wide,
        "CHUNK": CHUNK[operand_bytes(q.dtype)],
        # Scores must round alike wherever they are recomputed, whatever they are used for.
        "enable_fp_fusion": False,
    }


def _wide_constants(constants: dict[str, Any]) -> tuple[float, dict[str, Any], dict[str, Any]]:
    """(scale of scores, constants of products, constants of rows) of the kernels for wide heads."""
    shared = {name: constants[name] for name in ("HEADS", "DOT", "ACC", "enable_fp_fusion")}
    row = {name: constants[name] for name in ("INV_ALPHA", "LIMIT", "P", "KEEP")}
    return constants["SCALE"], shared, row


def _block(kernels: str, q: Tensor, v: Tensor) -> Block:
    """(rows, keys, warps) of a kernel for heads of these widths."""
    return blocks_on(q.device, kernels)[operand_bytes(q.dtype)][max(64, span_of(max(q.shape[2], v.shape[2])))]
