"""Focal attention in tiles that fit into the cache; probabilities are recomputed, not stored.

Notation: B graphs of a bucket, H heads, L rows of the longest, i query rows, j key rows, T kinds of a relation, d and e
widths. The leading dimension of tiles is B * H; names with BH have it split.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.bucket_pairs import accumulate, product, scaled
from graphbench.ops.dropout.cpu import RandomKeep, draw_seed
from graphbench.ops.focal_attention import lists
from graphbench.ops.focal_attention.focal_pairs import FocalPairs
from graphbench.ops.focal_attention.lists import count_visible
from graphbench.ops.focal_attention.scope import Relation, Scope
from graphbench.structures import Bucket
from graphbench.structures.first_order import first_order

# Scores of a tile: 1 MB of fp32, so that scores, mask and gradient stay near one core.
_PAIRS = 1 << 18
# Heads that see one pair in so many attend along lists, if there are so many pairs: from there on lists are faster.
_SPARSE = 6
_LARGE = 1 << 11


def focal_attention(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, relations: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    """See :func:`graphbench.ops.focal_attention.focal_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    groups = [(heads, _sees_few(scope, max_hops)) for heads, max_hops in scope.head_groups]
    if not scope.has_blocks or all(few for _, few in groups):
        return lists.focal_attention(q, k, v, scope, relations, bias, p)
    if not any(few for _, few in groups):
        return _in_tiles(q, k, v, scope, relations, bias, p)
    parts = []
    for heads, few in groups:
        attend = lists.focal_attention if few else _in_tiles
        of_heads = replace(scope, max_hops=scope.max_hops[heads])
        relations_of_heads = tuple(relation.of_heads(heads) for relation in relations)
        bias_of_heads = None if bias is None else bias[:, heads]
        parts.append(attend(q[:, heads], k[:, heads], v[:, heads], of_heads, relations_of_heads, bias_of_heads, p))
    return torch.cat(parts, dim=1)


def _sees_few(scope: Scope, max_hops: int | None) -> bool:
    """Whether a list of what a head sees is cheaper than tiles of all pairs."""
    if max_hops is None or scope.pairs < _LARGE:
        return False
    return count_visible(scope, max_hops) * _SPARSE <= scope.pairs


def _in_tiles(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, relations: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    tables = [table for relation in relations for table in relation.tables]
    call = _Call(scope, tuple(relation.index for relation in relations), p, draw_seed() if p else 0)
    with torch.autocast("cpu", enabled=False):  # which would cut what is widened inside
        result: Tensor = _Attention.apply(call, q, k, v, bias, *tables)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True)
class _Call:
    """Arguments of a call, except its differentiable inputs."""

    scope: Scope
    indices: tuple[Tensor, ...]
    p: float
    seed: int

    def relations(self, tables: Any, dtype: torch.dtype) -> list[_Relation]:
        """The relations, from the three tables of each, one after the other."""
        return [_Relation.of(tables[3 * n : 3 * n + 3], dtype) for n in range(len(self.indices))]


class _Table:
    """A table of a relation, heads first (H, T, width), with its gradient."""

    def __init__(self, table: Tensor, dtype: torch.dtype, is_scaled: bool = False) -> None:
        heads_first = table.to(dtype).transpose(0, 1)
        self._dtype, self._is_scaled = table.dtype, is_scaled
        self.entries = scaled(heads_first) if is_scaled else heads_first.contiguous()
        self.grad = torch.zeros_like(heads_first)

    def gradient(self) -> Tensor:
        """Gradient of the table as it was given."""
        grad = scaled(self.grad) if self._is_scaled else self.grad
        return grad.transpose(0, 1).to(self._dtype)


class _Relation(NamedTuple):
    """The tables of one relation."""

    query: _Table | None
    key: _Table | None
    value: _Table | None

    @classmethod
    def of(cls, tables: Any, dtype: torch.dtype) -> _Relation:
        """Relation from the three tables as they were given."""
        query, key, value = tables
        return cls(
            query=None if query is None else _Table(query, dtype),
            key=None if key is None else _Table(key, dtype, is_scaled=True),  # as the queries are already
            value=None if value is None else _Table(value, dtype),
        )


class _Tile(NamedTuple):
    """Rows of B * H, query rows, and the kinds of the pairs in every relation, (B, 1, i, j)."""

    batch: slice
    rows: slice
    kinds: list[Tensor]


class _Attention(torch.autograd.Function):
    """Forward and backward in tiles; the backward pass repeats scores and masks (README for the formulas)."""

    @staticmethod
    def forward(
        ctx: Any, call: _Call, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *tables: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, bias, *tables)
        ctx.call = call
        heads, dtype = q.shape[1], compute_dtype(q)
        layout = call.scope.ragged.layout_for_pairs(heads, _PAIRS)
        keep = RandomKeep(call.p, call.seed) if call.p else None
        relations = call.relations(tables, dtype)
        packed_q, packed_k, packed_v = (layout.pack(x).to(dtype) for x in (q, k, v))
        out = packed_v.new_empty(packed_v.shape)
        for bucket in layout.buckets:
            q_Bid, k_Bjd = scaled(bucket.operands(packed_q)), bucket.operands(packed_k)
            v_Bje = bucket.operands(packed_v)
            out_Bie = torch.empty_like(v_Bje)
            pairs = FocalPairs(call.scope, bucket, heads, dtype)
            for tile in _tiles(bucket, heads, pairs, call.indices):
                batch, rows, kinds = tile
                probs = _probabilities(q_Bid, k_Bjd, pairs, relations, tile, bias)
                if keep is not None:
                    probs.mul_(keep.fill_(torch.empty_like(probs)))
                product(probs, v_Bje[batch], out_Bie[batch, rows])
                for relation, kind in zip(relations, kinds):
                    if relation.value is not None:
                        value_HTe = relation.value.entries
                        sums_BHiT = _sum_by_kind(pairs.by_head(probs), kind, value_HTe.shape[1])
                        out_Bie[batch, rows] += (sums_BHiT @ value_HTe[pairs.heads(batch)]).flatten(0, 1)
            bucket.put(out_Bie if keep is None else out_Bie.mul_(keep.scale), out)
        return layout.unpack(out).to(v.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, *tables = ctx.saved_tensors
        call: _Call = ctx.call
        heads, dtype = q.shape[1], compute_dtype(q)
        layout = call.scope.ragged.layout_for_pairs(heads, _PAIRS)
        keep = RandomKeep(call.p, call.seed) if call.p else None
        relations = call.relations(tables, dtype)
        packed_q, packed_k, packed_v, packed_grad = (layout.pack(x).to(dtype) for x in (q, k, v, grad))
        packed_grad = layout.zero_padding(packed_grad)  # padding queries must not reach keys and values
        packed_grads = [torch.empty_like(x) for x in (packed_q, packed_k, packed_v)]
        grad_bias = torch.zeros_like(bias, dtype=dtype) if bias is not None and ctx.needs_input_grad[4] else None
        for bucket in layout.buckets:
            q_Bid, k_Bjd = scaled(bucket.operands(packed_q)), bucket.operands(packed_k)
            v_Bje, grad_Bie = bucket.operands(packed_v), bucket.operands(packed_grad)
            if keep is not None:
                grad_Bie = grad_Bie * keep.scale
            grad_q, grad_k, grad_v = (torch.empty_like(x) for x in (q_Bid, k_Bjd, v_Bje))
            pairs = FocalPairs(call.scope, bucket, heads, dtype)
            for tile in _tiles(bucket, heads, pairs, call.indices):
                batch, rows, _ = tile
                probs = _probabilities(q_Bid, k_Bjd, pairs, relations, tile, bias)
                kept = probs if keep is None else keep.fill_(torch.empty_like(probs)).mul_(probs)
                grad_out = grad_Bie[batch, rows]
                accumulate(grad_v[batch], rows, kept.transpose(1, 2), grad_out)
                grad_probs = torch.bmm(grad_out, v_Bje[batch].transpose(1, 2))
                _through_values_(grad_probs, kept, grad_out, pairs, relations, tile)
                # ds = p (mask dp - sum_j p mask dp), in place
                grad_scores = grad_probs.mul_(kept)
                grad_scores.addcmul_(probs, grad_scores.sum(2, keepdim=True), value=-1)
                product(grad_scores, k_Bjd[batch], grad_q[batch, rows])
                accumulate(grad_k[batch], rows, grad_scores.transpose(1, 2), q_Bid[batch, rows])
                _through_scores_(grad_q, grad_k, q_Bid, k_Bjd, grad_scores, pairs, relations, tile)
                if grad_bias is not None:
                    pairs.add_to_bias(grad_scores, batch, rows, grad_bias)
            for block, packed_gradient in zip((scaled(grad_q), grad_k, grad_v), packed_grads):
                bucket.put(block, packed_gradient)
        of_inputs = (layout.unpack(x).to(like.dtype) for x, like in zip(packed_grads, (q, k, v)))
        of_bias = None if grad_bias is None else grad_bias.to(bias.dtype)
        of_tables = [None if table is None else table.gradient() for relation in relations for table in relation]
        return None, *of_inputs, of_bias, *of_tables


def _tiles(bucket: Bucket, heads: int, pairs: FocalPairs, indices: tuple[Tensor, ...]) -> Iterator[_Tile]:
    """The tiles of a bucket, those of the same query rows one after the other: they share the kinds of pairs."""
    kinds, start = [], -1
    for batch, rows in sorted(bucket.tiles(heads, _PAIRS), key=lambda tile: tile[1].start):
        if rows.start != start:
            kinds, start = [pairs.kinds(index, rows) for index in indices], rows.start
        yield _Tile(batch, rows, kinds)


def _probabilities(
    q_Bid: Tensor, k_Bjd: Tensor, pairs: FocalPairs, relations: list[_Relation], tile: _Tile, bias: Tensor | None
) -> Tensor:
    """(B * H, i, j) of a tile."""
    batch, rows, kinds = tile
    queries, keys, heads = q_Bid[batch, rows], k_Bjd[batch].transpose(1, 2), pairs.heads(batch)
    scores = torch.bmm(queries, keys) if pairs.padding is None else torch.baddbmm(pairs.padding, queries, keys)
    for relation, kind in zip(relations, kinds):
        tables = ((q_Bid, relation.query), (k_Bjd, relation.key))
        terms = [pairs.by_head(x[batch, rows]) @ table.entries[heads].mT for x, table in tables if table is not None]
        if terms:
            pairs.by_head(scores).add_(_of_kind(sum(terms[1:], terms[0]), kind))
    if bias is not None:
        pairs.by_head(scores).add_(pairs.bias(bias, batch, rows))
    pairs.mask_(scores, batch, rows)
    return torch.softmax(scores, dim=-1)


def _through_values_(
    grad_probs: Tensor, kept: Tensor, grad_out: Tensor, pairs: FocalPairs, relations: list[_Relation], tile: _Tile
) -> None:
    """Adds to the gradients of probabilities and of tables what comes through the values of relations."""
    heads = pairs.heads(tile.batch)
    for (_, _, value), kind in zip(relations, tile.kinds):
        if value is not None:
            grad_BHie = pairs.by_head(grad_out)
            pairs.by_head(grad_probs).add_(_of_kind(grad_BHie @ value.entries[heads].mT, kind))
            sums_BHiT = _sum_by_kind(pairs.by_head(kept), kind, value.entries.shape[1])
            value.grad[heads] += (sums_BHiT.mT @ grad_BHie).sum(0)


def _through_scores_(
    grad_q: Tensor,
    grad_k: Tensor,
    q_Bid: Tensor,
    k_Bjd: Tensor,
    grad_scores: Tensor,
    pairs: FocalPairs,
    relations: list[_Relation],
    tile: _Tile,
) -> None:
    """Adds to the gradients of queries, keys and tables what comes through the terms of relations."""
    batch, rows, kinds = tile
    heads = pairs.heads(batch)
    for (query, key, _), kind in zip(relations, kinds):
        any_table = key if query is None else query
        if any_table is None:
            continue
        sums_BHiT = _sum_by_kind(pairs.by_head(grad_scores), kind, any_table.entries.shape[1])
        for table, x, grad_x in ((query, q_Bid, grad_q), (key, k_Bjd, grad_k)):
            if table is not None:
                grad_x[batch, rows] += (sums_BHiT @ table.entries[heads]).flatten(0, 1)
                table.grad[heads] += (sums_BHiT.mT @ pairs.by_head(x[batch, rows])).sum(0)


def _of_kind(terms_BHiT: Tensor, kind_B1ij: Tensor) -> Tensor:
    """(B, H, i, j): for every pair the entry of its kind."""
    return terms_BHiT.gather(3, kind_B1ij.expand(-1, terms_BHiT.shape[1], -1, -1))


def _sum_by_kind(x_BHij: Tensor, kind_B1ij: Tensor, kinds: int) -> Tensor:
    """(B, H, i, T): sums over the pairs of every kind."""
    sums = x_BHij.new_zeros(*x_BHij.shape[:3], kinds)
    return sums.scatter_add_(3, kind_B1ij.expand_as(x_BHij), x_BHij)
