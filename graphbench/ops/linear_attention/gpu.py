"""Linear attention in Triton kernels: no padding, memory linear in the rows (README, "On a GPU").

Notation: N rows, H heads, G graphs, d and e widths, T tiles.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from graphbench.ops.gpu_launch import blocks_on, has_kernels, product_type, row_tiles, span_of, triton_type, wide_of
from graphbench.ops.linear_attention import cpu
from graphbench.ops.linear_attention.gpu_kernels import attend, cross, row_gradient, totals, value_gradient
from graphbench.ops.linear_attention.norms import bound_of, positive
from graphbench.ops.segment.cpu import sum_rows
from graphbench.structures import Ragged
from graphbench.structures.capacity import CapacityRagged
from graphbench.structures.first_order import first_order

# Rows whose products one program sums.
CHUNK = 256
# Wider heads would not fit the accumulators.
_WIDEST = 256


def linear_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, norm: str, base: str) -> Tensor:
    """See :func:`graphbench.ops.linear_attention.linear_attention`.

    Half precision is read and written as it is and computed in float32. Heads wider than 256, and devices older than
    sm_80, go through the torch code.
    """
    if q.numel() == 0 or v.numel() == 0:
        return v.expand(-1, q.shape[1], -1) * 0
    if not has_kernels("linear_attention", q) or max(q.shape[2], v.shape[2]) > _WIDEST:
        return cpu.linear_attention(q, k, v, ragged, norm, base)
    with torch.autocast(q.device.type, enabled=False):
        if norm == "l2":
            q, k = (_UnitRows.apply(x.to(wide_of(v.dtype))) for x in (q, k))  # type: ignore[no-untyped-call]
        bound = bound_of(q, k, ragged, norm) if base == "none" else None
        inputs = (x.contiguous() for x in (q, k, v))
        result: Tensor = _Attention.apply(*inputs, bound, ragged, norm, base)  # type: ignore[no-untyped-call]
    return result


class _UnitRows(torch.autograd.Function):
    """:func:`~graphbench.ops.linear_attention.norms.unit_rows` in a third of the operations."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        inverse = positive(torch.linalg.vector_norm(rows, dim=2, keepdim=True)).reciprocal_()
        unit = rows * inverse
        ctx.save_for_backward(unit, inverse)
        return unit

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        unit, inverse = ctx.saved_tensors
        along = (grad * unit).sum(2, keepdim=True)
        return torch.addcmul(grad, unit, along, value=-1).mul_(inverse)


class _Attention(torch.autograd.Function):
    """Saves its inputs and two matrices of every graph."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bound: Tensor | None, ragged: Ragged, norm: str, base: str
    ) -> Tensor:
        inverse_squares, scale, centre = _per_graph(q, k, v, ragged, norm)
        scale = scale.view(-1, 1, 1, 1)
        context = _cross(k, v, centre, None, ragged) * scale
        out = v.new_empty(v.shape[0], q.shape[1], v.shape[2])
        ctx.save_for_backward(q, k, v, bound, centre, context, scale, inverse_squares)
        ctx.ragged, ctx.base = ragged, base
        with torch.cuda.device_of(q):
            grid, tiles, constants = _launch(q, v, ragged)
            # Arguments that a kernel does not read are still arguments.
            limit, unread = context if bound is None else bound, (context, context)
            attend[grid](
                q, v, centre, context, limit, out, ragged.ptr, tiles, out, *unread, BASE=base, FORWARD=True, **constants
            )
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bound, centre, context, scale, inverse_squares = ctx.saved_tensors
        ragged, base, grad = ctx.ragged, ctx.base, grad.contiguous()
        p = torch.empty_like(grad, dtype=context.dtype)
        slope, bound_grad = (context.new_empty(q.shape[:2]) for _ in range(2))
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        with torch.cuda.device_of(q):
            grid, tiles, constants = _launch(q, v, ragged)
            where = (ragged.ptr, tiles)
            limit = context if bound is None else bound
            attend[grid](
                q, v, centre, context, limit, grad, *where, p, slope, bound_grad, BASE=base, FORWARD=False, **constants
            )
            grad_context = _cross(q, p, centre, slope, ragged)
            if inverse_squares is None:
                pull = context.new_zeros(context.shape[0], 2)
            else:
                # Sum of q . dq over a graph, and of k . dk as well: what a Frobenius norm takes out.
                pull = (context * grad_context).sum((1, 2, 3)).unsqueeze(1) * inverse_squares
            grad_context *= scale
            common = centre
            if base == "uniform":
                common = sum_rows(p if v.shape[1] > 1 else p.sum(1, keepdim=True), ragged)
                common *= ragged.derived(_inverse_sizes, common.dtype).view(-1, 1, 1)
            value_gradient[grid[0], v.shape[1]](k, p, grad_context, common, *where, dv, BASE=base, **constants)
            del constants["V_HEADS"]
            row_gradient[grid](
                q, p, centre, slope, context, pull, *where, dq, CENTRED=False, B_HEADS=p.shape[1], **constants
            )
            row_gradient[grid](
                k, v, centre, slope, grad_context, pull, *where, dk, CENTRED=True, B_HEADS=v.shape[1], **constants
            )
        return dq, dk, dv, None if bound is None else bound_grad, None, None, None


def _cross(a: Tensor, b: Tensor, centre: Tensor, last: Tensor | None, ragged: Ragged) -> Tensor:
    """(G, H, e + 1, d) ``[b - centre | 1]^T a``, or ``[b | last]^T a``, of every graph; no atomics: reproducible."""
    constants = _cross_constants(a, b)
    tiles, per_graph = ragged.derived(row_tiles, CHUNK), ragged.derived(_tile_counts, CHUNK)
    parts = centre.new_empty(len(tiles), a.shape[1], b.shape[2] + 1, a.shape[2])
    grid = (len(tiles), a.shape[1], triton.cdiv(b.shape[2], constants["COLS"]))
    with torch.cuda.device_of(a):
        cross[grid](
            a, b, centre, parts if last is None else last, ragged.ptr, tiles, parts, CENTRED=last is None, **constants
        )
    return _summed(parts, per_graph)


def _per_graph(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, norm: str) -> tuple[Tensor | None, Tensor, Tensor]:
    """Numbers that the rows of a graph have in common.

    Returns:
        (G, 2) inverse squares of the norms of q and k (None: they are rows of length one), (G,) product of the inverse
        norms divided by the number of rows, (G, H or 1, e) mean of v, which is a constant for the gradient (README).
    """
    inverse_sizes = ragged.derived(_inverse_sizes, wide_of(v.dtype))
    if norm == "l2":
        centre = sum_rows(v.to(inverse_sizes.dtype), ragged)
        return None, inverse_sizes, centre.mul_(inverse_sizes.view(-1, 1, 1))
    constants = _totals_constants(q, v)
    tiles, per_graph = ragged.derived(row_tiles, CHUNK), ragged.derived(_tile_counts, CHUNK)
    parts = inverse_sizes.new_empty(len(tiles), 2 + v.shape[1] * v.shape[2])
    with torch.cuda.device_of(q):
        totals[(len(tiles),)](q, k, v, ragged.ptr, tiles, parts, **constants)
    sums = _summed(parts, per_graph)
    inverse_squares = positive(sums[:, :2]).reciprocal_()
    scale = inverse_squares.sqrt().prod(1).mul_(inverse_sizes)
    return inverse_squares, scale, (sums[:, 2:] * inverse_sizes.unsqueeze(1)).view(-1, v.shape[1], v.shape[2])


def _summed(parts: Tensor, per_graph: Ragged) -> Tensor:
    """Parts of every graph added up."""
    if isinstance(per_graph, CapacityRagged):
        return sum_rows(parts, per_graph)
    return parts if per_graph.sizes and set(per_graph.sizes) == {1} else sum_rows(parts, per_graph)


def _inverse_sizes(ragged: Ragged, dtype: torch.dtype) -> Tensor:
    """(G,) 1 / n, which is 1 for an empty graph."""
    if isinstance(ragged, CapacityRagged):
        return ragged.size_tensor.clamp(min=1).to(dtype).reciprocal_()
    sizes = torch.tensor(ragged.sizes, dtype=dtype).clamp_(min=1)
    return sizes.reciprocal_().to(ragged.device, non_blocking=True)


def _launch(q: Tensor, v: Tensor, ragged: Ragged) -> tuple[tuple[int, int], Tensor, dict[str, Any]]:
    """(grid, tiles, constants) of the kernels that take every row by itself."""
    constants = _constants(q, v)
    tiles = ragged.derived(row_tiles, constants["ROWS"])
    return (len(tiles), q.shape[1]), tiles, constants


def _constants(q: Tensor, v: Tensor, kernels: str = "linear_rows") -> dict[str, Any]:
    # Rows of a tile, columns that are multiplied at a time.
    rows, cols, warps = blocks_on(q.device, kernels)[wide_of(v.dtype).itemsize][max(64, span_of(q.shape[2]))]
    return {
        "HEADS": q.shape[1],
        "V_HEADS": v.shape[1],
        "D": q.shape[2],
        "E": v.shape[2],
        "COLS": cols,
        "ROWS": rows,
        "DOT": product_type(wide_of(v.dtype)),
        "ACC": triton_type(wide_of(v.dtype)),
        "num_warps": warps,
        "num_stages": 1,
        "enable_fp_fusion": True,
    }


def _cross_constants(a: Tensor, b: Tensor) -> dict[str, Any]:
    constants = _constants(a, b, "linear_cross")
    return constants | {"SPAN": span_of(a.shape[2]), "CHUNK": CHUNK, "B_HEADS": constants.pop("V_HEADS")}


def _totals_constants(q: Tensor, v: Tensor) -> dict[str, Any]:
    constants = _constants(q, v)
    heads, v_heads, width, v_width, _ = (constants.pop(name) for name in ("HEADS", "V_HEADS", "D", "E", "DOT"))
    return constants | {"WIDTH": heads * width, "V_WIDTH": v_heads * v_width, "CHUNK": CHUNK}


def _tile_counts(ragged: Ragged, rows: int) -> Ragged:
    """Number of tiles of ``rows`` rows in every graph."""
    if isinstance(ragged, CapacityRagged):
        return ragged.in_pieces(rows)
    return Ragged.from_sizes([-(-size // rows) for size in ragged.sizes], ragged.device)
