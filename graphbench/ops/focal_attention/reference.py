"""Focal attention as a loop over graphs with dense scores, mask and bias."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphbench.ops.focal_attention.scope import Relation, Scope, visible
from graphbench.structures import HopNeighbors, PairBlocks


def focal_attention(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, relations: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    """See :func:`graphbench.ops.focal_attention.focal_attention`."""
    blocks = [v.new_zeros(0, *v.shape[1:])]
    node = 0
    for graph, size in enumerate(scope.ragged.sizes):
        rows = slice(node, node + size)
        pair = _pair_index(scope, graph, node, size)
        listed, pair = pair >= 0, pair.clamp(min=0)
        scores = torch.einsum("ihd,jhd->hij", q[rows], k[rows])
        for relation in relations:
            kind = relation.index.long()[pair] if scope.pairs else pair
            for x, table in ((q, relation.query), (k, relation.key)):
                if table is not None:
                    scores = scores + torch.einsum("ihd,ijhd->hij", x[rows], table[kind])
        scores = scores / math.sqrt(q.shape[2])
        if bias is not None and len(bias):
            scores = scores + bias[pair].permute(2, 0, 1)
        seen = [listed if limit is None else listed & _seen(scope, pair, limit) for limit in scope.max_hops]
        scores = scores.masked_fill(~torch.stack(seen), -torch.inf) if seen else scores
        weights = torch.dropout(torch.softmax(scores, dim=-1), p, p > 0)
        out = torch.einsum("hij,jhe->ihe", weights, v[rows])
        for relation in relations:
            if relation.value is not None and size:
                out = out + torch.einsum("hij,ijhe->ihe", weights, relation.value[relation.index.long()[pair]])
        blocks.append(out)
        node += size
    return torch.cat(blocks)


def _seen(scope: Scope, pair: Tensor, max_hops: int) -> Tensor:
    return visible(scope.hops[pair], max_hops, scope.sees_unreachable) if scope.pairs else pair >= 0


def _pair_index(scope: Scope, graph: int, node: int, size: int) -> Tensor:
    """(n, n) number of every pair in the order of the distances, -1 where lists do not have it."""
    distances = scope.distances
    if isinstance(distances, PairBlocks):
        first = scope.ragged.pair_starts[graph]
        return first + torch.arange(size * size, device=distances.distance.device).view(size, size)
    assert isinstance(distances, HopNeighbors)
    pair = distances.col.new_full((size, size), -1)
    for i in range(size):
        first, last = distances.row_ptr[node + i : node + i + 2].tolist()
        pair[i, distances.col[first:last] - node] = torch.arange(first, last, device=pair.device)
    return pair
