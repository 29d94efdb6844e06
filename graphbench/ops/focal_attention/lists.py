"""Focal attention along lists of pairs: time and memory of the lists, in both passes.

Notation: N nodes, P pairs that are seen, H heads, T kinds of a relation, d and e widths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.edge_attention.cpu import weighted
from graphbench.ops.focal_attention.scope import Relation, Scope, hops_of, visible
from graphbench.structures import HopNeighbors, PairBlocks, Ragged
from graphbench.structures.adjacency import Csr
from graphbench.structures.first_order import first_order

# Numbers of gathered rows handled at a time: 2 MB of fp32.
_NUMBERS = 1 << 19


@dataclass(frozen=True)
class _VisiblePairs:
    """The pairs a head sees.

    Attributes:
        keep: (P,) their numbers in the order of the distances, None for all.
        row: (P,) nodes that look, ascending.
        by_row: pairs grouped by them.
        by_col: pairs grouped by the nodes that are seen.
    """

    keep: Tensor | None
    row: Tensor
    by_row: Csr
    by_col: Csr


def count_visible(scope: Scope, max_hops: int) -> int:
    """Number of pairs that a limited head sees."""
    assert scope.distances is not None
    return scope.distances.derived(_count_visible, max_hops, scope.sees_unreachable)


def _count_visible(distances: HopNeighbors | PairBlocks, max_hops: int, sees_unreachable: bool) -> int:
    return int(visible(hops_of(distances), max_hops, sees_unreachable).sum())


def focal_attention(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, relations: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    """See :func:`graphbench.ops.focal_attention.focal_attention`; heads of one limit at a time."""
    wide, parts = compute_dtype(v), []
    for heads, max_hops in scope.head_groups:
        assert max_hops is not None
        assert scope.distances is not None
        # Kept with the distances: they serve all layers and both passes.
        pairs = scope.distances.derived(_visible_pairs, scope.ragged, max_hops, scope.sees_unreachable)
        index = (slice(None), heads)
        kinds = [relation.index if pairs.keep is None else relation.index[pairs.keep] for relation in relations]
        tables = [None if table is None else table[index].to(wide) for r in relations for table in r.tables]
        q_NHd, k_NHd, v_NHe = (x[index].to(wide) for x in (q, k, v))
        if bias is None:
            bias_PH = None
        else:
            bias_PH = (bias[index] if pairs.keep is None else bias[pairs.keep][index]).to(wide)
        call = _Call(pairs, tuple(kinds), p, draw_seed() if p else 0)
        with torch.autocast(q.device.type, enabled=False):  # which would cut the widened products again
            parts.append(_Attention.apply(call, q_NHd, k_NHd, v_NHe, bias_PH, *tables))  # type: ignore[no-untyped-call]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)).to(v.dtype)


def _visible_pairs(
    distances: HopNeighbors | PairBlocks, ragged: Ragged, max_hops: int, sees_unreachable: bool
) -> _VisiblePairs:
    hops = hops_of(distances)
    keep = visible(hops, max_hops, sees_unreachable).nonzero().view(-1)
    row, col = _ends(distances, ragged, keep)
    entry = torch.argsort(col, stable=True)
    return _VisiblePairs(
        keep=None if len(keep) == hops.numel() else keep,
        row=row,
        by_row=Csr(_pointer(row, ragged.num_rows), torch.arange(len(row), device=row.device), col),
        by_col=Csr(_pointer(col, ragged.num_rows), entry, row[entry]),
    )


def _ends(distances: HopNeighbors | PairBlocks, ragged: Ragged, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """(P,) the node that looks and the node that is seen, for ascending numbers of pairs."""
    if isinstance(distances, HopNeighbors):
        nodes = torch.arange(distances.num_nodes, device=distances.col.device)
        return nodes.repeat_interleave(distances.row_ptr.diff())[pairs], distances.col[pairs]
    graph = torch.searchsorted(distances.pair_ptr, pairs, right=True) - 1
    within, size, first = pairs - distances.pair_ptr[graph], ragged.size_tensor[graph], ragged.ptr[graph]
    return first + within.div(size, rounding_mode="floor"), first + within.remainder(size)


def _pointer(index: Tensor, num_nodes: int) -> Tensor:
    return torch.nn.functional.pad(torch.bincount(index, minlength=num_nodes).cumsum(0), (1, 0))


class _Tables(NamedTuple):
    """One relation of a call: the kind of every pair (P,), and its three tables."""

    kind: Tensor
    query: Tensor | None
    key: Tensor | None
    value: Tensor | None


@dataclass(frozen=True)
class _Call:
    """Arguments of a call, except its differentiable inputs."""

    pairs: _VisiblePairs
    kinds: tuple[Tensor, ...]
    p: float
    seed: int

    def relations(self, tables: Any) -> list[_Tables]:
        """The relations, from the three tables of each, one after the other."""
        return [_Tables(kind, *tables[3 * n : 3 * n + 3]) for n, kind in enumerate(self.kinds)]

    def mask(self, like: Tensor) -> tuple[Tensor | None, float]:
        """Mask of kept weights (None for all) and their scale: by the seed on a CPU, else drawn on the device."""
        if not self.p:
            return None, 1.0
        if like.is_cpu:
            keep = RandomKeep(self.p, self.seed)
            return keep.fill_(torch.empty_like(like)), keep.scale
        return torch.empty_like(like).bernoulli_(1 - self.p), 1 / (1 - self.p) if self.p < 1 else 0.0

    def of_kind(self, x_NTH: Tensor, kind: Tensor) -> Tensor:
        """(P, H): for every pair what its row has for its kind."""
        return x_NTH.flatten(0, 1).index_select(0, self.pairs.row * x_NTH.shape[1] + kind)

    def sum_by_kind(self, x_PH: Tensor, kind: Tensor, kinds: int) -> Tensor:
        """(N, T, H): sums over the pairs of every node and kind."""
        cells, nodes = self.pairs.row * kinds + kind, self.pairs.by_row.ptr.numel() - 1
        sums = x_PH.new_zeros(nodes * kinds, x_PH.shape[1]).index_add_(0, cells, x_PH)
        return sums.view(-1, kinds, x_PH.shape[1])


class _Attention(torch.autograd.Function):
    """The weights of the pairs are kept; everything else of width d is summed in one kernel per head."""

    @staticmethod
    def forward(
        ctx: Any, call: _Call, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *tables: Tensor | None
    ) -> Tensor:
        pairs, scale = call.pairs, q.shape[2] ** -0.5
        score_PH = _products(q, k, pairs)
        for kind, query, key, _ in call.relations(tables):
            terms = [torch.einsum("nhd,thd->nth", x, table) for x, table in ((q, query), (k, key)) if table is not None]
            if terms:
                score_PH += call.of_kind(sum(terms[1:], terms[0]), kind)
        score_PH.mul_(scale)
        if bias is not None:
            score_PH += bias
        ptr = pairs.by_row.ptr
        top_NH = torch.segment_reduce(score_PH, "max", offsets=ptr, unsafe=True)
        weight_PH = score_PH.sub_(top_NH.index_select(0, pairs.row)).exp_()
        total_NH = torch.segment_reduce(weight_PH, "sum", offsets=ptr, unsafe=True)
        weight_PH.div_(total_NH.index_select(0, pairs.row))
        mask, ctx.factor = call.mask(weight_PH)
        # The CPU makes its mask again; what a device drew is kept.
        ctx.mask = None if mask is None or mask.is_cpu else mask.bool()
        kept_PH = weight_PH if mask is None else mask.mul_(weight_PH)
        out = weighted(v, kept_PH, pairs.by_row)
        for kind, _, _, value in call.relations(tables):
            if value is not None:
                out += torch.einsum("nth,the->nhe", call.sum_by_kind(kept_PH, kind, len(value)), value)
        out.mul_(ctx.factor)
        ctx.call = call
        ctx.save_for_backward(q, k, v, weight_PH, *tables)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weight_PH, *tables = ctx.saved_tensors
        call: _Call = ctx.call
        pairs, scale = call.pairs, q.shape[2] ** -0.5
        mask = call.mask(weight_PH)[0] if ctx.mask is None else ctx.mask.to(weight_PH.dtype)
        kept_PH = weight_PH if mask is None else mask.mul_(weight_PH)
        grad = grad * ctx.factor
        grad_v = weighted(grad, kept_PH, pairs.by_col)
        grad_weight_PH = _products(grad, v, pairs)
        grad_values: list[Tensor | None] = []
        for kind, _, _, value in call.relations(tables):
            grad_value = None
            if value is not None:
                grad_weight_PH += call.of_kind(torch.einsum("nhe,the->nth", grad, value), kind)
                sums_NTH = call.sum_by_kind(kept_PH, kind, len(value))
                grad_value = torch.einsum("nth,nhe->the", sums_NTH, grad)
            grad_values.append(grad_value)
        # ds = a (mask da - sum_j a da), in place
        grad_score_PH = grad_weight_PH.mul_(kept_PH)
        inner_NH = torch.segment_reduce(grad_score_PH, "sum", offsets=pairs.by_row.ptr, unsafe=True)
        grad_score_PH.addcmul_(weight_PH, inner_NH.index_select(0, pairs.row), value=-1)
        grad_bias = grad_score_PH.clone() if ctx.needs_input_grad[4] else None
        grad_score_PH.mul_(scale)
        grad_q, grad_k = weighted(k, grad_score_PH, pairs.by_row), weighted(q, grad_score_PH, pairs.by_col)
        grad_tables: list[Tensor | None] = []
        for (kind, query, key, _), grad_value in zip(call.relations(tables), grad_values):
            grad_query = _through_table_(grad_q, q, query, grad_score_PH, kind, call)
            grad_key = _through_table_(grad_k, k, key, grad_score_PH, kind, call)
            grad_tables += [grad_query, grad_key, grad_value]
        return None, grad_q, grad_k, grad_v, grad_bias, *grad_tables


def _through_table_(
    grad_x: Tensor, x: Tensor, table: Tensor | None, grad_score_PH: Tensor, kind: Tensor, call: _Call
) -> Tensor | None:
    """Gradient of a table that the rows of ``x`` read; what reaches the rows is added to ``grad_x``."""
    if table is None:
        return None
    sums_NTH = call.sum_by_kind(grad_score_PH, kind, len(table))
    grad_x += torch.einsum("nth,thd->nhd", sums_NTH, table)
    return torch.einsum("nth,nhd->thd", sums_NTH, x)


def _products(a: Tensor, b: Tensor, pairs: _VisiblePairs) -> Tensor:
    """(P, H) products of the rows of the nodes that look (a) and that are seen (b), some pairs at a time."""
    products, step = a.new_empty(len(pairs.row), a.shape[1]), max(1, _NUMBERS // (a.shape[1] * a.shape[2]))
    for first in range(0, len(pairs.row), step):
        part = slice(first, first + step)
        rows = a.index_select(0, pairs.row[part])
        torch.sum(rows.mul_(b.index_select(0, pairs.by_row.other[part])), 2, out=products[part])
    return products
