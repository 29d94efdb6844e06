"""Focal attention as a loop over graphs with dense scores, mask and bias."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphbench.ops.focal_attention.scope import Relation, Scope, visible


def focal_attention(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, tables: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    """See :func:`graphbench.ops.focal_attention.focal_attention`."""
    blocks = [v.new_zeros(0, *v.shape[1:])]
    node = 0
    for graph, size in enumerate(scope.ragged.sizes):
        rows = slice(node, node + size)
        place = _places(scope, graph, node, size)
        known, place = place >= 0, place.clamp(min=0)
        scores = torch.einsum("ihd,jhd->hij", q[rows], k[rows])
        for relation in tables:
            kind = relation.index.long()[place] if scope.pairs else place
            for own, table in ((q, relation.query), (k, relation.key)):
                if table is not None:
                    scores = scores + torch.einsum("ihd,ijhd->hij", own[rows], table[kind])
        scores = scores / math.sqrt(q.shape[2])
        if bias is not None and len(bias):
            scores = scores + bias[place].permute(2, 0, 1)
        seen = [known if reach is None else known & _seen(scope, place, reach) for reach in scope.reach]
        scores = scores.masked_fill(~torch.stack(seen), -torch.inf) if seen else scores
        weights = torch.dropout(torch.softmax(scores, dim=-1), p, p > 0)
        out = torch.einsum("hij,jhe->ihe", weights, v[rows])
        for relation in tables:
            if relation.value is not None and size:
                out = out + torch.einsum("hij,ijhe->ihe", weights, relation.value[relation.index.long()[place]])
        blocks.append(out)
        node += size
    return torch.cat(blocks)


def _seen(scope: Scope, place: Tensor, reach: int) -> Tensor:
    return visible(scope.hops[place], reach, scope.sees_unreachable) if scope.pairs else place >= 0


def _places(scope: Scope, graph: int, node: int, size: int) -> Tensor:
    """(n, n) position of every pair in the order of ``near``, -1 where lists do not have it."""
    if scope.has_blocks:
        first = sum(each * each for each in scope.ragged.sizes[:graph])
        return first + torch.arange(size * size, device=scope.hops.device).view(size, size)
    place = scope.near.col.new_full((size, size), -1)  # type: ignore[union-attr]
    for i in range(size):
        first, last = scope.near.row_ptr[node + i : node + i + 2].tolist()  # type: ignore[union-attr]
        place[i, scope.near.col[first:last] - node] = torch.arange(first, last)  # type: ignore[union-attr]
    return place
