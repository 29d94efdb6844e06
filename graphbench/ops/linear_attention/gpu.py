"""Linear attention in Triton kernels: no padding, memory linear in the rows (README, "On a GPU").

Notation: N rows, H heads, G graphs, d and e widths, T tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

try:
    import triton
except ImportError as missing:
    raise ImportError("backend 'gpu' of linear_attention needs Triton: pip install triton") from missing

from graphbench.ops.gpu_launch import has_kernels, span_of, triton_type, wide_of
from graphbench.ops.linear_attention import cpu
from graphbench.ops.linear_attention.gpu_kernels import attend, cross, row_gradient, value_gradient
from graphbench.ops.linear_attention.norms import bound_of, inverse_norms, unit_rows
from graphbench.ops.segment import segment_mean, segment_sum

if TYPE_CHECKING:
    from graphbench.structures import Ragged

# By bytes of a number, from what the compiler reports for sm_90, not from timing: rows of a tile, columns that are
# multiplied at a time, warps.
BLOCKS = {4: (64, 32, 8), 8: (32, 16, 4)}
# Rows whose products one program sums, and rows that it multiplies at a time, by the padded width of q.
CHUNK = 256
CROSS_ROWS = {64: 64, 128: 32, 256: 16}
# Wider heads would not fit the accumulators.
_WIDEST = 256


def linear_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, norm: str, base: str) -> Tensor:
    """See :func:`graphbench.ops.linear_attention.linear_attention`.

    Half precision is read and written as it is and computed in float32. Heads wider than 256, and devices older than
    sm_80, go through the torch code.

    Raises:
        ValueError: the tensors lie on a device that Triton cannot reach.
    """
    if q.numel() == 0 or v.numel() == 0:
        return v.expand(-1, q.shape[1], -1) * 0
    if not has_kernels("linear_attention", q) or max(q.shape[2], v.shape[2]) > _WIDEST:
        return cpu.linear_attention(q, k, v, ragged, norm, base)
    with torch.autocast(q.device.type, enabled=False):
        if norm == "l2":
            q, k = (unit_rows(each.to(wide_of(v.dtype))) for each in (q, k))
        bound = bound_of(q, k, ragged, norm) if base == "none" else None
        inputs = (each.contiguous() for each in (q, k, v))
        result: Tensor = _Attention.apply(*inputs, bound, ragged, norm, base)  # type: ignore[no-untyped-call]
    return result


class _Attention(torch.autograd.Function):
    """Saves its inputs and two matrices of every graph."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bound: Tensor | None, ragged: Ragged, norm: str, base: str
    ) -> Tensor:
        wide = wide_of(v.dtype)
        inverse = [inverse_norms(each, ragged, norm).to(wide) for each in (q, k)]
        scale = (inverse[0] * inverse[1] / ragged.size_tensor.clamp(min=1)).view(-1, 1, 1, 1)
        centre = segment_mean(v.to(wide), ragged)  # a constant for the gradient, see the README
        context = _cross(k, v, centre, None, ragged) * scale
        out = v.new_empty(v.shape[0], q.shape[1], v.shape[2])
        ctx.save_for_backward(q, k, v, bound, centre, context, scale, *inverse)
        ctx.ragged, ctx.base, ctx.by_graph = ragged, base, norm == "frobenius"
        with torch.cuda.device_of(q):
            grid, tiles, constants = _launch(q, v, ragged)
            # Arguments that a kernel does not read are still arguments.
            limit, unread = context if bound is None else bound, (context, context)
            attend[grid](
                q, v, centre, context, limit, out, ragged.ptr, tiles, out, *unread, BASE=base, FORWARD=True, **constants
            )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bound, centre, context, scale, *inverse = ctx.saved_tensors
        ragged, base, grad = ctx.ragged, ctx.base, grad.contiguous()
        p = torch.empty_like(grad, dtype=context.dtype)
        slope, bound_grad = (context.new_empty(q.shape[:2]) for _ in range(2))
        dq, dk, dv = (torch.empty_like(each) for each in (q, k, v))
        with torch.cuda.device_of(q):
            grid, tiles, constants = _launch(q, v, ragged)
            where = (ragged.ptr, tiles)
            limit = context if bound is None else bound
            attend[grid](
                q, v, centre, context, limit, grad, *where, p, slope, bound_grad, BASE=base, FORWARD=False, **constants
            )
            of_context = _cross(q, p, centre, slope, ragged)
            # Sum of q . dq over a graph, and of k . dk as well: what a Frobenius norm takes out.
            along = (context * of_context).sum((1, 2, 3)) * ctx.by_graph
            of_context *= scale
            common = centre
            if base == "uniform":
                common = segment_mean(p if v.shape[1] > 1 else p.sum(1, keepdim=True), ragged)
            value_gradient[grid[0], v.shape[1]](k, p, of_context, common, *where, dv, BASE=base, **constants)
            del constants["V_HEADS"]
            pull = [along * each.square() for each in inverse]
            row_gradient[grid](
                q, p, centre, slope, context, pull[0], *where, dq, CENTRED=False, B_HEADS=p.shape[1], **constants
            )
            row_gradient[grid](
                k, v, centre, slope, of_context, pull[1], *where, dk, CENTRED=True, B_HEADS=v.shape[1], **constants
            )
        return dq, dk, dv, None if bound is None else bound_grad, None, None, None


def _cross(a: Tensor, b: Tensor, centre: Tensor, last: Tensor | None, ragged: Ragged) -> Tensor:
    """(G, H, e + 1, d) ``[b - centre | 1]^T a``, or ``[b | last]^T a``, of every graph; no atomics: reproducible."""
    constants = _cross_constants(a, b)
    tiles, per_graph = _tiles(ragged, CHUNK)
    parts = centre.new_empty(len(tiles), a.shape[1], b.shape[2] + 1, a.shape[2])
    grid = (len(tiles), a.shape[1], triton.cdiv(b.shape[2], constants["COLS"]))
    with torch.cuda.device_of(a):
        cross[grid](
            a, b, centre, parts if last is None else last, ragged.ptr, tiles, parts, CENTRED=last is None, **constants
        )
    return segment_sum(parts, per_graph)


def _launch(q: Tensor, v: Tensor, ragged: Ragged) -> tuple[tuple[int, int], Tensor, dict[str, Any]]:
    """(grid, tiles, constants) of the kernels that take every row by itself."""
    constants = _constants(q, v)
    tiles, _ = _tiles(ragged, constants["ROWS"])
    return (len(tiles), q.shape[1]), tiles, constants


def _constants(q: Tensor, v: Tensor) -> dict[str, Any]:
    rows, cols, warps = BLOCKS[wide_of(v.dtype).itemsize]
    return {
        "HEADS": q.shape[1],
        "V_HEADS": v.shape[1],
        "D": q.shape[2],
        "E": v.shape[2],
        "COLS": cols,
        "ROWS": rows,
        "ACC": triton_type(wide_of(v.dtype)),
        "num_warps": warps,
        "num_stages": 1,
        "enable_fp_fusion": True,
    }


def _cross_constants(a: Tensor, b: Tensor) -> dict[str, Any]:
    constants = _constants(a, b)
    span = span_of(a.shape[2])
    rows, b_heads = CROSS_ROWS[max(64, span)], constants.pop("V_HEADS")
    return constants | {"SPAN": span, "CHUNK": CHUNK, "ROWS": rows, "B_HEADS": b_heads}


_TILES: WeakKeyDictionary[Ragged, dict[int, tuple[Tensor, Ragged]]] = WeakKeyDictionary()


def _tiles(ragged: Ragged, rows: int) -> tuple[Tensor, Ragged]:
    """(T, 2) int64 graph of every tile and its first row within the graph, and how many tiles every graph has."""
    known = _TILES.setdefault(ragged, {})
    if rows not in known:
        each = -(-np.asarray(ragged.sizes, dtype=np.int64) // rows)
        within = np.arange(each.sum()) - np.repeat(each.cumsum() - each, each)
        table = torch.from_numpy(np.stack([np.repeat(np.arange(len(each)), each), rows * within], axis=1))
        counts = type(ragged).from_sizes(each.tolist(), ragged.device)
        known[rows] = table.to(ragged.device, non_blocking=True), counts
    return known[rows]
