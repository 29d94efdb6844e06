"""Focal attention in blocks that fit into the cache; probabilities are recomputed, not stored.

Notation: B graphs of a bucket, H heads, L rows of the longest, i query rows, j key rows, T relations, d and e widths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphbench.ops.backend import compute_dtype
from graphbench.ops.bucket_pairs import accumulate, scaled
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.focal_attention import lists
from graphbench.ops.focal_attention.focal_pairs import FocalPairs
from graphbench.ops.focal_attention.lists import pairs_seen
from graphbench.ops.focal_attention.scope import Relation, Scope
from graphbench.structures import Bucket

# Scores handled at a time: 1 MB of fp32, so that scores, mask and gradient stay near one core.
_PAIRS = 1 << 18
# Heads that see one pair in so many attend along lists, if there are so many pairs: from there on lists are faster.
_SPARSE = 6
_LARGE = 1 << 11


def focal_attention(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, tables: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    """See :func:`graphbench.ops.focal_attention.focal_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    runs = [(heads, _sees_few(scope, reach)) for heads, reach in scope.runs]
    if not scope.has_blocks or all(few for _, few in runs):
        return lists.focal_attention(q, k, v, scope, tables, bias, p)
    if not any(few for _, few in runs):
        return _in_blocks(q, k, v, scope, tables, bias, p)
    parts = []
    for heads, few in runs:
        relations, added = tuple(each.of_heads(heads) for each in tables), None if bias is None else bias[:, heads]
        kernel = lists.focal_attention if few else _in_blocks
        own = replace(scope, reach=scope.reach[heads])
        parts.append(kernel(q[:, heads], k[:, heads], v[:, heads], own, relations, added, p))
    return torch.cat(parts, dim=1)


def _sees_few(scope: Scope, reach: int | None) -> bool:
    """Whether a list of what heads of this reach see is cheaper than blocks of all pairs."""
    return reach is not None and scope.pairs >= _LARGE and pairs_seen(scope, reach) * _SPARSE <= scope.pairs


def _in_blocks(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, tables: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    weights = [each for table in tables for each in table.weights]
    call = _Call(scope, tuple(table.index for table in tables), p, draw_seed() if p else 0)
    with torch.autocast("cpu", enabled=False):  # which would cut what is widened inside
        result: Tensor = _Attention.apply(call, q, k, v, bias, *weights)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True)
class _Call:
    scope: Scope
    indices: tuple[Tensor, ...]
    p: float
    seed: int


class _Table:
    """The three tables of one relation for the graphs of a bucket, heads first, with their gradients."""

    def __init__(self, weights: tuple[Tensor | None, ...], dtype: torch.dtype) -> None:
        query, key, value = (None if each is None else each.to(dtype).transpose(0, 1) for each in weights)
        self.query_HTd = None if query is None else query.contiguous()
        self.key_HTd = None if key is None else scaled(key)  # the scale of the scores; queries are scaled already
        self.value_HTe = None if value is None else value.contiguous()
        self.grads = [None if each is None else torch.zeros_like(each) for each in (query, key, value)]

    @property
    def scores(self) -> bool:
        return self.query_HTd is not None or self.key_HTd is not None

    def gradients(self, weights: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        key = self.grads[1]
        found = (self.grads[0], None if key is None else scaled(key), self.grads[2])
        return [None if g is None or w is None else g.transpose(0, 1).to(w.dtype) for g, w in zip(found, weights)]


class _Attention(torch.autograd.Function):
    """Forward and backward in blocks; the backward pass repeats scores and masks (README for the formulas)."""

    @staticmethod
    def forward(
        ctx: Any, call: _Call, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *weights: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, bias, *weights)
        ctx.call = call
        heads, dtype = q.shape[1], compute_dtype(q)
        layout = call.scope.ragged.layout_for_pairs(heads, _PAIRS)
        keep = RandomKeep(call.p, call.seed) if call.p else None
        tables = [_Table(weights[3 * n : 3 * n + 3], dtype) for n in range(len(call.indices))]
        q, k, packed_v = (layout.pack(each).to(dtype) for each in (q, k, v))
        out = packed_v.new_empty(packed_v.shape)
        for bucket in layout.buckets:
            q_Bid, k_Bjd, v_Bje = scaled(bucket.heads_first(q)), bucket.heads_first(k), bucket.heads_first(packed_v)
            out_Bie = torch.empty_like(v_Bje)
            pairs = FocalPairs(call.scope, bucket, heads, dtype)
            for batch, rows, kinds in _blocks(bucket, heads, pairs, call.indices):
                probs = _probabilities(q_Bid, k_Bjd, pairs, tables, kinds, bias, batch, rows)
                if keep is not None:
                    probs.mul_(keep.fill_(torch.empty_like(probs)))
                torch.bmm(probs, v_Bje[batch], out=out_Bie[batch, rows])
                for table, kind in zip(tables, kinds):
                    if table.value_HTe is not None:
                        sums_BHiT = _sums(pairs.by_head(probs), kind, table.value_HTe.shape[1])
                        out_Bie[batch, rows] += (sums_BHiT @ table.value_HTe[pairs.heads(batch)]).flatten(0, 1)
            bucket.put(out_Bie if keep is None else out_Bie.mul_(keep.scale), out)
        return layout.unpack(out).to(v.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, *weights = ctx.saved_tensors
        call: _Call = ctx.call
        heads, dtype = q.shape[1], compute_dtype(q)
        layout = call.scope.ragged.layout_for_pairs(heads, _PAIRS)
        keep = RandomKeep(call.p, call.seed) if call.p else None
        tables = [_Table(tuple(weights[3 * n : 3 * n + 3]), dtype) for n in range(len(call.indices))]
        packed_q, packed_k, packed_v, grad = (layout.pack(each).to(dtype) for each in (q, k, v, grad))
        grad = layout.zero_padding(grad)  # padding queries must not reach keys and values
        grad_q, grad_k, grad_v = (torch.empty_like(each) for each in (packed_q, packed_k, packed_v))
        grad_bias = torch.zeros_like(bias, dtype=dtype) if bias is not None and ctx.needs_input_grad[4] else None
        for bucket in layout.buckets:
            q_Bid, k_Bjd = scaled(bucket.heads_first(packed_q)), bucket.heads_first(packed_k)
            v_Bje, grad_Bie = bucket.heads_first(packed_v), bucket.heads_first(grad)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            gq, gk, gv = torch.empty_like(q_Bid), torch.empty_like(k_Bjd), torch.empty_like(v_Bje)
            pairs = FocalPairs(call.scope, bucket, heads, dtype)
            for batch, rows, kinds in _blocks(bucket, heads, pairs, call.indices):
                probs = _probabilities(q_Bid, k_Bjd, pairs, tables, kinds, bias, batch, rows)
                arriving = grad_Bie[batch, rows]
                change = torch.bmm(arriving, v_Bje[batch].transpose(1, 2))
                kept = probs if keep is None else keep.fill_(torch.empty_like(probs)).mul_(probs)
                accumulate(gv[batch], rows, kept.transpose(1, 2), arriving)
                own = pairs.heads(batch)
                for table, kind in zip(tables, kinds):
                    if table.value_HTe is not None:
                        arriving_BHie = pairs.by_head(arriving)
                        pairs.by_head(change).add_(_looked_up(arriving_BHie @ table.value_HTe[own].mT, kind))
                        sums_BHiT = _sums(pairs.by_head(kept), kind, table.value_HTe.shape[1])
                        table.grads[2][own] += (sums_BHiT.mT @ arriving_BHie).sum(0)  # type: ignore[index]
                # d score = p (d p - sum_j p d p), with d p = mask * change
                change.mul_(kept)
                change.addcmul_(probs, change.sum(2, keepdim=True), value=-1)
                torch.bmm(change, k_Bjd[batch], out=gq[batch, rows])
                accumulate(gk[batch], rows, change.transpose(1, 2), q_Bid[batch, rows])
                for table, kind in zip(tables, kinds):
                    for slot, (mine, ours, table_HTd) in enumerate(
                        ((q_Bid, gq, table.query_HTd), (k_Bjd, gk, table.key_HTd))
                    ):
                        if table_HTd is not None:
                            if slot == 0 or table.query_HTd is None:
                                sums_BHiT = _sums(pairs.by_head(change), kind, table_HTd.shape[1])
                            ours[batch, rows] += (sums_BHiT @ table_HTd[own]).flatten(0, 1)
                            table.grads[slot][own] += (sums_BHiT.mT @ pairs.by_head(mine[batch, rows])).sum(0)  # type: ignore[index]
                if grad_bias is not None:
                    pairs.add_to_bias(change, batch, rows, grad_bias)
            bucket.put(scaled(gq), grad_q)
            bucket.put(gk, grad_k)
            bucket.put(gv, grad_v)
        grads = (layout.unpack(each).to(like.dtype) for each, like in ((grad_q, q), (grad_k, k), (grad_v, v)))
        of_tables = [
            each for n, table in enumerate(tables) for each in table.gradients(tuple(weights[3 * n : 3 * n + 3]))
        ]
        return None, *grads, None if grad_bias is None else grad_bias.to(bias.dtype), *of_tables


def _blocks(
    bucket: Bucket, heads: int, pairs: FocalPairs, indices: tuple[Tensor, ...]
) -> Iterator[tuple[slice, slice, list[Tensor]]]:
    """The blocks of a bucket, those of the same rows behind each other, with the relations of their pairs."""
    kinds, known = [], -1
    for batch, rows in sorted(bucket.tiles(heads, _PAIRS), key=lambda block: block[1].start):
        if rows.start != known:
            kinds, known = [pairs.kinds(index, rows) for index in indices], rows.start
        yield batch, rows, kinds


def _probabilities(
    q_Bid: Tensor,
    k_Bjd: Tensor,
    pairs: FocalPairs,
    tables: list[_Table],
    kinds: list[Tensor],
    bias: Tensor | None,
    batch: slice,
    rows: slice,
) -> Tensor:
    """(B * H, i, j) of a block."""
    keys, padding = k_Bjd[batch].transpose(1, 2), pairs.padding
    queries = q_Bid[batch, rows]
    scores = torch.bmm(queries, keys) if padding is None else torch.baddbmm(padding, queries, keys)
    own = pairs.heads(batch)
    for table, kind in zip(tables, kinds):
        if table.scores:
            terms = [
                pairs.by_head(mine[batch, rows]) @ table_HTd[own].mT
                for mine, table_HTd in ((q_Bid, table.query_HTd), (k_Bjd, table.key_HTd))
                if table_HTd is not None
            ]
            pairs.by_head(scores).add_(_looked_up(sum(terms[1:], terms[0]), kind))
    if bias is not None:
        pairs.by_head(scores).add_(pairs.bias(bias, batch, rows))
    pairs.mask_(scores, batch, rows)
    return torch.softmax(scores, dim=-1)


def _looked_up(terms_BHiT: Tensor, kind_B1ij: Tensor) -> Tensor:
    """(B, H, i, j): for every pair the entry of its relation."""
    return terms_BHiT.gather(3, kind_B1ij.expand(-1, terms_BHiT.shape[1], -1, -1))


def _sums(each_BHij: Tensor, kind_B1ij: Tensor, kinds: int) -> Tensor:
    """(B, H, i, T): sums over the pairs of every relation."""
    sums = each_BHij.new_zeros(*each_BHij.shape[:3], kinds)
    return sums.scatter_add_(3, kind_B1ij.expand_as(each_BHij), each_BHij)
