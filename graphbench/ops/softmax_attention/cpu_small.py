"""Softmax attention of a batch of small graphs: few calls into torch, what the backward pass needs is stored.

There the calls cost more than the arithmetic. Queries, keys and values of all heads come into the order of the batched
products with one gather, results and gradients go back with another, and the probabilities are kept.

Notation: B graphs of a bucket, H heads, L rows of its longest graph, C cells (B H L of all buckets), d width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.dropout.cpu import RandomKeep
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

_STORED = 1 << 18
"""Most scores of a batch, over all heads, whose probabilities are stored: 1 MB of fp32, and as much with dropout."""


@dataclass(frozen=True, eq=False)
class HeadCells:
    """Rows of (N * 3 * H, d) queries, keys and values, in the order of products over (B * H, L, d).

    Attributes:
        row_of_cell: (3 C,) int64, cells of queries, of keys and of values; padding repeats the first row of its graph.
        cell_of_row: (N * 3 * H,) int64, the inverse.
        out_row_of_cell: (C,) int64, the same for rows of (N * H, d) results.
        out_cell_of_row: (N * H,) int64.
        padding: (cells,) int64, those that are padding; None where none are.
        blocks: first cell of every bucket, B * H, L and (B * H, 1, L) to be added to scores, 0 or minus infinity,
            or None without padding.
    """

    row_of_cell: Tensor
    cell_of_row: Tensor
    out_row_of_cell: Tensor
    out_cell_of_row: Tensor
    padding: Tensor | None
    blocks: tuple[tuple[int, int, int, Tensor | None], ...]


def applies(q: Tensor, v: Tensor, ragged: Ragged, pairs: int) -> bool:
    """Whether the batch is small enough, and values are as wide as keys, so that they can be gathered together.

    Args:
        q: (N, H, d).
        v: (N, H, e).
        ragged: the partition of the rows.
        pairs: most pairs of a bucket, times heads.
    """
    heads = q.shape[1]
    if q.shape != v.shape or heads * ragged.num_pairs > _STORED:
        return False
    buckets = ragged.layout_for_pairs(heads, pairs).buckets
    return sum(len(bucket.graphs) * heads * bucket.length**2 for bucket in buckets) <= _STORED


def head_cells(ragged: Ragged, heads: int, pairs: int, dtype: torch.dtype) -> HeadCells:
    """The gathers of a batch for so many heads, in buckets of so many pairs; padding of that type."""
    layout, head = ragged.layout_for_pairs(heads, pairs), torch.arange(heads)[:, None]
    rows, real, blocks, start = [], [], [], 0
    for bucket in layout.buckets:
        shape = len(bucket.graphs), heads, bucket.length
        row = torch.arange(ragged.num_rows) if layout.row_of_cell is None else layout.row_of_cell
        rows.append((row[bucket.cells].view(-1, 1, bucket.length) * heads + head).flatten())
        mask = torch.ones(shape, dtype=torch.bool) if bucket.mask is None else bucket.mask[:, None].expand(shape)
        real.append(mask.flatten())
        added = bucket.padding(dtype)
        added = None if added is None else added.expand(*shape[:2], 1, -1).reshape(-1, 1, bucket.length)
        blocks.append((start, shape[0] * heads, bucket.length, added))
        start += shape[0] * heads * bucket.length
    out_row, is_real = torch.cat(rows), torch.cat(real)
    query = out_row + out_row.div(heads, rounding_mode="floor") * (2 * heads)  # row * 3 H + head
    row = torch.cat([query, query + heads, query + 2 * heads])
    padding = None if bool(is_real.all()) else is_real.logical_not().nonzero()[:, 0]
    return HeadCells(row, _inverse(row, is_real.repeat(3)), out_row, _inverse(out_row, is_real), padding, tuple(blocks))


def _inverse(row_of_cell: Tensor, is_real: Tensor) -> Tensor:
    cells = is_real.nonzero()[:, 0]
    return torch.empty_like(cells).index_copy_(0, row_of_cell[cells], cells)


def small_attention(qkv: Tensor, ragged: Ragged, pairs: int, p: float, seed: int) -> Tensor:
    """(N, H, d), where :func:`applies`.

    Args:
        qkv: (N, 3, H, d).
        ragged: the partition of the rows.
        pairs: most pairs of a bucket, times heads.
        p: probability of dropping an attention weight.
        seed: seed of the masks.
    """
    return _SmallAttention.apply(qkv, ragged, pairs, p, seed)  # type: ignore[no-untyped-call]


class _SmallAttention(torch.autograd.Function):
    """The formulas are those of the README."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, ragged: Ragged, pairs: int, p: float, seed: int) -> Tensor:
        dtype, (rows, _, heads, width) = compute_dtype(qkv), qkv.shape
        cells = ragged.derived(head_cells, heads, pairs, dtype)
        packed = qkv.reshape(-1, width).index_select(0, cells.row_of_cell).to(dtype).view(3, -1, width)
        keep, out = RandomKeep(p, seed) if p else None, packed.new_empty(packed.shape[1:])
        saved = []
        for block in cells.blocks:
            q_Bid, k_Bjd, v_Bjd = _view(packed, block).unbind()
            added, beta = (q_Bid.new_zeros(1), 0) if block[3] is None else (block[3], 1)
            probs = torch.baddbmm(added, q_Bid, k_Bjd.transpose(1, 2), beta=beta, alpha=width**-0.5).softmax(2)
            kept = probs if keep is None else keep.fill_(torch.empty_like(probs)).mul_(probs)
            torch.bmm(kept, v_Bjd, out=_view(out, block))
            saved += [probs, kept]
        ctx.cells, ctx.scale = cells, None if keep is None else keep.scale
        ctx.save_for_backward(packed, *saved)
        result = out.index_select(0, cells.out_cell_of_row)
        result = result if keep is None else result.mul_(keep.scale)
        return result.view(rows, heads, width).to(qkv.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        packed, *saved = ctx.saved_tensors
        cells, (rows, heads, width) = ctx.cells, grad.shape
        grad_out = grad.reshape(-1, width).index_select(0, cells.out_row_of_cell).to(packed.dtype)
        if cells.padding is not None:
            grad_out.index_fill_(0, cells.padding, 0.0)  # padding queries must not reach keys and values
        grad_out = grad_out if ctx.scale is None else grad_out.mul_(ctx.scale)
        grads = torch.empty_like(packed)
        for block, probs, kept in zip(cells.blocks, saved[::2], saved[1::2], strict=True):
            (q_Bid, k_Bjd, v_Bjd), grad_Bid = _view(packed, block).unbind(), _view(grad_out, block)
            grad_q, grad_k, grad_v = _view(grads, block).unbind()
            torch.bmm(kept.transpose(1, 2), grad_Bid, out=grad_v)
            # ds = p (mask dp - sum_j p mask dp), in place
            grad_scores = torch.bmm(grad_Bid, v_Bjd.transpose(1, 2)).mul_(kept)
            grad_scores.addcmul_(probs, grad_scores.sum(2, keepdim=True), value=-1)
            torch.bmm(grad_scores, k_Bjd, out=grad_q)
            torch.bmm(grad_scores.transpose(1, 2), q_Bid, out=grad_k)
        grads[:2].mul_(width**-0.5)
        of_rows = grads.view(-1, width).index_select(0, cells.cell_of_row)
        return of_rows.view(rows, 3, heads, width).to(grad.dtype), None, None, None, None


def _view(x: Tensor, block: tuple[int, int, int, Tensor | None]) -> Tensor:
    """(..., B * H, L, d) cells of a bucket, from (..., C, d)."""
    start, count, length, _ = block
    return x.narrow(-2, start, count * length).view(*x.shape[:-2], count, length, x.shape[-1])
