"""Rank of the true target of a pair among all nodes of its graph: reciprocal ranks and hits.

Definitions of the Long Range Graph Benchmark (https://arxiv.org/abs/2206.08164) and of its re-tuning
(https://arxiv.org/abs/2309.00367).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphbench.structures import Ragged
from graphbench.structures.buckets import Bucket

HITS = (1, 3, 10)


def ranking_statistics(z: Tensor, ragged: Ragged, pairs: Tensor, positive: Tensor) -> dict[str, Tensor]:
    """Mean over the true pairs of every graph of 1 / rank and of [rank <= k].

    The rank of t in a true pair (s, t) counts, from 1, the nodes j of the graph with <z_s, z_j> above <z_s, z_t>;
    nodes of equal score count one half each (the rule of OGB's evaluator). Candidates j are

    * without suffix: all nodes but t;
    * ``_filt``: without the targets of the other true pairs of s;
    * ``_filt_self``: without s itself, too.

    Memory is that of one score matrix per graph.

    Args:
        z: (N, d) rows whose inner products are the scores.
        ragged: the partition of the rows into graphs.
        pairs: (2, P) int64 source and target, numbered through the batch.
        positive: (P,) bool, the true ones among them.

    Returns:
        (G,) per name ``mrr``, ``hits@1``, ``hits@3``, ``hits@10`` and the same with ``_filt`` and ``_filt_self``. A
        graph without true pairs has 0 in those without suffix and NaN (left out of means) in the others, as published.
    """
    source, target = pairs
    graph = ragged.graph_id[source]
    target = target - ragged.ptr[graph]
    result = {
        name + suffix: z.new_full((ragged.num_graphs,), torch.nan if suffix else 0.0)
        for suffix in ("", "_filt", "_filt_self")
        for name in ("mrr", *(f"hits@{k}" for k in HITS))
    }
    for bucket, rows in zip(ragged.buckets, ragged.to_buckets(z), strict=True):
        count, length = rows.shape[:2]
        cell_of_source = ragged.layout.cell_of_row.index_select(0, source) - bucket.start
        counts = positive & (cell_of_source >= 0) & (cell_of_source < count * length)
        cell = cell_of_source * length + target
        weight = z.new_zeros(count * length * length).index_add_(0, cell.where(counts, 0), counts.to(z.dtype))
        weight = weight.view(count, length, length)
        total = weight.sum((1, 2))
        graphs = bucket_graphs(ragged, bucket)
        for suffix, rank in _ranks(rows, bucket.mask, weight > 0):
            values = {"mrr": 1 / rank} | {f"hits@{k}": (rank <= k).to(z.dtype) for k in HITS}
            for name, value in values.items():
                mean = (weight * value).sum((1, 2)) / total
                result[name + suffix][graphs] = mean if suffix else mean.nan_to_num(0.0)
    return result


def bucket_graphs(ragged: Ragged, bucket: Bucket) -> Tensor:
    """(B,) int64, the graphs of a bucket, on the device; of one without rows, the last graph."""
    first = torch.arange(bucket.start, bucket.cells.stop, bucket.length, device=ragged.device)
    rows = ragged.layout.row_of_cell
    return ragged.graph_id.index_select(0, first if rows is None else rows.index_select(0, first))


def _ranks(rows: Tensor, mask: Tensor | None, positive: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Suffix and (B, L, L) rank of target j (column) for source i (row), for each set of candidates.

    Args:
        rows: (B, L, d) rows of a bucket.
        mask: (B, L) rows that are no padding; None: all.
        positive: (B, L, L) true pairs.
    """
    score = rows @ rows.transpose(1, 2)
    candidates = score if mask is None else score.masked_fill(~mask[:, None, :], -torch.inf)
    yield "", _rank(score, candidates, ties=1)
    yield "_filt", _rank(score, candidates.masked_fill(positive, -torch.inf))
    itself = torch.eye(rows.shape[1], dtype=torch.bool, device=rows.device)
    yield "_filt_self", _rank(score, candidates.masked_fill(positive | itself, -torch.inf))


def _rank(score: Tensor, candidates: Tensor, ties: int = 0) -> Tensor:
    """Rank of every score in the row of its candidates; ``ties``: how many of them are the score itself."""
    ordered = candidates.sort(dim=-1).values
    length = ordered.shape[-1]
    above = length - torch.searchsorted(ordered, score, right=True)
    not_below = length - torch.searchsorted(ordered, score)
    return 1 + (above + not_below - ties).to(score.dtype) / 2
