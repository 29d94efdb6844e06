"""Focal attention in plain torch: its fused kernel per bucket of graphs, with mask, bias and relations as one mask.

Notation: B graphs of a bucket, H heads, L rows of the longest, T kinds of a relation, d and e widths.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.focal_attention import lists
from graphbench.ops.focal_attention.focal_pairs import FocalPairs
from graphbench.ops.focal_attention.scope import Relation, Scope

# Scores of a bucket, and so of one launch: 256 MB of fp32.
_PAIRS = 1 << 26


def focal_attention(
    q: Tensor, k: Tensor, v: Tensor, scope: Scope, relations: tuple[Relation, ...], bias: Tensor | None, p: float
) -> Tensor:
    """See :func:`graphbench.ops.focal_attention.focal_attention`."""
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    if not scope.has_blocks:
        return lists.focal_attention(q, k, v, scope, relations, bias, p)
    heads, dtype = q.shape[1], compute_dtype(q)
    layout = scope.ragged.layout_for_pairs(heads, _PAIRS)
    packed, blocks = [layout.pack(x).to(dtype) for x in (q, k, v)], []
    with torch.autocast(q.device.type, enabled=False):
        for bucket in layout.buckets:
            pairs = FocalPairs(scope, bucket, heads, dtype)
            q_BHLd, k_BHLd, v_BHLe = (pairs.by_head(bucket.heads_first(x)) for x in packed)
            out_BHLe = _attend(q_BHLd, k_BHLd, v_BHLe, pairs, relations, bias, p)
            blocks.append(out_BHLe.transpose(1, 2).flatten(0, 1))
        return layout.unpack(torch.cat(blocks)).to(v.dtype)


def _attend(
    q_BHLd: Tensor,
    k_BHLd: Tensor,
    v_BHLe: Tensor,
    pairs: FocalPairs,
    relations: tuple[Relation, ...],
    bias: Tensor | None,
    p: float,
) -> Tensor:
    graphs, heads, length, width = q_BHLd.shape
    batch, rows = slice(0, graphs * heads), slice(0, length)
    offset = q_BHLd.new_zeros(graphs * heads, length, length)
    if pairs.padding is not None:
        offset = offset + pairs.padding
    kinds = [pairs.kinds(relation.index, rows).expand(-1, heads, -1, -1) for relation in relations]
    for relation, kind in zip(relations, kinds):
        for x_BHLd, table in ((q_BHLd, relation.query), (k_BHLd, relation.key)):
            if table is not None:
                term_BHLT = x_BHLd @ (table.to(x_BHLd.dtype) * width**-0.5).permute(1, 2, 0)
                offset = offset + term_BHLT.gather(3, kind).flatten(0, 1)
    if bias is not None:
        offset = offset + pairs.bias(bias, batch, rows).flatten(0, 1)
    pairs.mask_(offset, batch, rows)
    offset_BHij = pairs.by_head(offset)
    if all(relation.value is None for relation in relations):
        return F.scaled_dot_product_attention(q_BHLd, k_BHLd, v_BHLe, attn_mask=offset_BHij, dropout_p=p)
    scores = torch.matmul(q_BHLd * width**-0.5, k_BHLd.mT) + offset_BHij
    probs = torch.dropout(torch.softmax(scores, dim=-1), p, p > 0)
    out = probs @ v_BHLe
    for relation, kind in zip(relations, kinds):
        if relation.value is not None:
            sums_BHLT = probs.new_zeros(graphs, heads, length, len(relation.value)).scatter_add(3, kind, probs)
            out = out + sums_BHLT @ relation.value.to(probs.dtype).transpose(0, 1)
    return out
