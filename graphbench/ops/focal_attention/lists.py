"""Focal attention along lists of neighbours: time and memory of the lists, in both passes.

Notation: N nodes, P pairs that are seen, H heads, T relations, d and e widths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphbench.ops.backend import compute_dtype
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.edge_attention.cpu import weighted
from graphbench.ops.focal_attention.scope import Relation, Scope, hops_of, visible
from graphbench.ops.propagate.adjacency import Csr
from graphbench.structures import HopNeighbors, PairBlocks, Ragged

# Numbers of gathered rows handled at a time: 2 MB of fp32.
_BLOCK = 1 << 19


@dataclass(frozen=True)
class _Seen:
    """The pairs a head sees.

    Attributes:
        keep: (P,) their places in ``near``, None for all.
        row: (P,) nodes that look, ascending.
        by_row: pairs grouped by them.
        by_col: pairs grouped by the nodes that are seen.
    """

    keep: Tensor | None
    row: Tensor
    by_row: Csr
    by_col: Csr


def pairs_seen(scope: Scope, reach: int) -> int:
    """How many pairs a head of this reach sees."""
    assert scope.near is not None
    return scope.near.derived(_count, reach, scope.sees_unreachable)


def _count(near: HopNeighbors | PairBlocks, reach: int, sees_unreachable: bool) -> int:
    return int(visible(hops_of(near), reach, sees_unreachable).sum())


def focal_attention(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, tables: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    """See :func:`graphbench.ops.focal_attention.focal_attention`; heads of one reach at a time."""
    wide, parts = compute_dtype(v), []
    for heads, reach in scope.runs:
        assert reach is not None
        seen = _seen(scope, reach)
        rows = (slice(None), heads)
        kinds = [table.index if seen.keep is None else table.index[seen.keep] for table in tables]
        own = None if bias is None else (bias[rows] if seen.keep is None else bias[seen.keep][rows]).to(wide)
        weights = [None if each is None else each[rows].to(wide) for table in tables for each in table.weights]
        tensors = (each[rows].to(wide) for each in (q, k, v))
        call = _Call(seen, tuple(kinds), p, draw_seed() if p else 0)
        parts.append(_Attention.apply(call, *tensors, own, *weights))  # type: ignore[no-untyped-call]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)).to(v.dtype)


def _seen(scope: Scope, reach: int) -> _Seen:
    assert scope.near is not None
    # Kept with the distances: it serves all layers and both passes.
    return scope.near.derived(_build_seen, scope.ragged, reach, scope.sees_unreachable)


def _build_seen(near: HopNeighbors | PairBlocks, ragged: Ragged, reach: int, sees_unreachable: bool) -> _Seen:
    hops = hops_of(near)
    keep = visible(hops, reach, sees_unreachable).nonzero().view(-1)
    row, col = _ends(near, ragged, keep)
    entry = torch.argsort(col, stable=True)
    return _Seen(
        keep=None if len(keep) == hops.numel() else keep,
        row=row,
        by_row=Csr(_pointer(row, ragged.num_rows), torch.arange(len(row), device=row.device), col),
        by_col=Csr(_pointer(col, ragged.num_rows), entry, row[entry]),
    )


def _ends(near: HopNeighbors | PairBlocks, ragged: Ragged, places: Tensor) -> tuple[Tensor, Tensor]:
    """(P,) the node that looks and the node that is seen, for pairs by their ascending places in ``near``."""
    if isinstance(near, HopNeighbors):
        nodes = torch.arange(near.num_nodes, device=near.col.device)
        return nodes.repeat_interleave(near.row_ptr.diff())[places], near.col[places]
    graph = torch.searchsorted(near.pair_ptr, places, right=True) - 1
    within, size = places - near.pair_ptr[graph], ragged.size_tensor[graph]
    first = ragged.ptr[graph]
    return first + within.div(size, rounding_mode="floor"), first + within.remainder(size)


def _pointer(index: Tensor, num_nodes: int) -> Tensor:
    return torch.nn.functional.pad(torch.bincount(index, minlength=num_nodes).cumsum(0), (1, 0))


@dataclass(frozen=True)
class _Call:
    seen: _Seen
    kinds: tuple[Tensor, ...]
    p: float
    seed: int

    def cells(self, kind: Tensor, kinds: int) -> Tensor:
        """(P,) place of (row, relation) among N * T."""
        return self.seen.row * kinds + kind

    def mask(self, like: Tensor) -> tuple[Tensor | None, float]:
        """Kept weights (None for all) and their scale."""
        if not self.p:
            return None, 1.0
        keep = RandomKeep(self.p, self.seed)
        return keep.fill_(torch.empty_like(like, device="cpu")).to(like.device), keep.scale


class _Attention(torch.autograd.Function):
    """The weights of the pairs are kept; everything else of width d is summed in one kernel per head."""

    @staticmethod
    def forward(
        ctx: Any, call: _Call, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *tables: Tensor | None
    ) -> Tensor:
        seen, scale = call.seen, q.shape[2] ** -0.5
        score_PH = _products(q, k, seen)
        for kind, query, key, _ in _each(call, tables):
            terms = [torch.einsum("nhd,thd->nth", own, t) for own, t in ((q, query), (k, key)) if t is not None]
            if terms:
                term_NTH = sum(terms[1:], terms[0])
                score_PH += term_NTH.flatten(0, 1).index_select(0, call.cells(kind, term_NTH.shape[1]))
        score_PH.mul_(scale)
        if bias is not None:
            score_PH += bias
        ptr = seen.by_row.ptr
        top_NH = torch.segment_reduce(score_PH, "max", offsets=ptr, unsafe=True)
        weight_PH = score_PH.sub_(top_NH.index_select(0, seen.row)).exp_()
        total_NH = torch.segment_reduce(weight_PH, "sum", offsets=ptr, unsafe=True)
        weight_PH.div_(total_NH.index_select(0, seen.row))
        mask, factor = call.mask(weight_PH)
        kept_PH = weight_PH if mask is None else mask.mul_(weight_PH)
        out = weighted(v, kept_PH, seen.by_row)
        for kind, _, _, value in _each(call, tables):
            if value is not None:
                out += torch.einsum("nth,the->nhe", _sums(kept_PH, call, kind, value, len(out)), value)
        out.mul_(factor)
        ctx.call = call
        ctx.save_for_backward(q, k, v, weight_PH, out, *tables)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weight_PH, out, *tables = ctx.saved_tensors
        call: _Call = ctx.call
        seen, scale = call.seen, q.shape[2] ** -0.5
        mask, factor = call.mask(weight_PH)
        kept_PH = weight_PH if mask is None else mask.mul_(weight_PH)
        total_NH = (grad * out).sum(2)  # sum_j a_ij (d a_ij), values of tables included
        grad = grad * factor
        grads = [None if each is None else torch.zeros_like(each) for each in tables]
        grad_v = weighted(grad, kept_PH, seen.by_col)
        change_PH = _products(grad, v, seen)
        for n, (kind, _, _, value) in enumerate(_each(call, tables)):
            if value is not None:
                cells = call.cells(kind, len(value))
                change_PH += torch.einsum("nhe,the->nth", grad, value).flatten(0, 1).index_select(0, cells)
                grads[3 * n + 2] = torch.einsum("nth,nhe->the", _sums(kept_PH, call, kind, value, len(out)), grad)
        change_PH.mul_(kept_PH).addcmul_(weight_PH, total_NH.index_select(0, seen.row), value=-1)
        grad_bias = change_PH.clone() if ctx.needs_input_grad[4] else None
        change_PH.mul_(scale)
        grad_q, grad_k = weighted(k, change_PH, seen.by_row), weighted(q, change_PH, seen.by_col)
        for n, (kind, query, key, _) in enumerate(_each(call, tables)):
            for slot, (own, ours, table) in enumerate(((q, grad_q, query), (k, grad_k, key))):
                if table is not None:
                    sums_NTH = _sums(change_PH, call, kind, table, len(out))
                    ours += torch.einsum("nth,thd->nhd", sums_NTH, table)
                    grads[3 * n + slot] = torch.einsum("nth,nhd->thd", sums_NTH, own)
        return None, grad_q, grad_k, grad_v, grad_bias, *grads


def _each(call: _Call, tables: Any) -> list[tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]]:
    return [(kind, *tables[3 * n : 3 * n + 3]) for n, kind in enumerate(call.kinds)]


def _sums(each_PH: Tensor, call: _Call, kind: Tensor, table: Tensor, nodes: int) -> Tensor:
    """(N, T, H): sums over the pairs of every node and relation."""
    kinds, heads = len(table), each_PH.shape[1]
    return (
        each_PH.new_zeros(nodes * kinds, heads).index_add_(0, call.cells(kind, kinds), each_PH).view(-1, kinds, heads)
    )


def _products(a: Tensor, b: Tensor, seen: _Seen) -> Tensor:
    """(P, H) products of the rows of the nodes that look (a) and that are seen (b), some pairs at a time."""
    products, step = a.new_empty(len(seen.row), a.shape[1]), max(1, _BLOCK // (a.shape[1] * a.shape[2]))
    for first in range(0, len(seen.row), step):
        part = slice(first, first + step)
        rows = a.index_select(0, seen.row[part])
        torch.sum(rows.mul_(b.index_select(0, seen.by_row.other[part])), 2, out=products[part])
    return products
