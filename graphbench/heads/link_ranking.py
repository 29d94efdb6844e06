"""Where the true target of a pair stands among all nodes of its graph: reciprocal ranks and hits.

Definitions of the Long Range Graph Benchmark (https://arxiv.org/abs/2206.08164) and of its re-tuning
(https://arxiv.org/abs/2309.00367).
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import Ragged

HITS = (1, 3, 10)


def ranking_statistics(z: Tensor, ragged: Ragged, pairs: Tensor, positive: Tensor) -> dict[str, Tensor]:
    """Mean over the true pairs of every graph of 1 / rank and of [rank <= k].

    The rank of t in a true pair (s, t) counts, from 1, the nodes j of the graph with <z_s, z_j> above <z_s, z_t>;
    nodes of equal score count one half each (the rule of OGB's evaluator). Candidates j are

    * raw: all nodes but t;
    * ``_filt``: without the targets of the other true pairs of s;
    * ``_filt_self``: without s itself, too.

    Memory is that of one score matrix per graph; nothing is kept.

    Args:
        z: (N, d) rows whose inner products are the scores.
        ragged: the partition of the rows into graphs.
        pairs: (2, P) int64 source and target, numbered through the batch.
        positive: (P,) bool, the true ones among them.

    Returns:
        (G,) per name ``mrr``, ``hits@1``, ``hits@3``, ``hits@10`` and the same with ``_filt`` and ``_filt_self``. A
        graph without true pairs has 0 in the raw ones and NaN (left out of means) in the filtered ones, as published.
    """
    source, target = pairs
    graph = ragged.graph_id[source]
    first = ragged.ptr[graph]
    source, target = source - first, target - first
    names = ("mrr", *(f"hits@{k}" for k in HITS))
    result = {
        name + suffix: z.new_full((ragged.num_graphs,), 0.0 if suffix == "" else torch.nan)
        for suffix in ("", "_filt", "_filt_self")
        for name in names
    }
    for bucket, rows in zip(ragged.buckets, ragged.to_buckets(z)):
        graphs = torch.tensor(bucket.graphs, device=z.device)
        count, length = rows.shape[:2]
        place = graphs.new_full((ragged.num_graphs,), -1)
        place[graphs] = torch.arange(count, device=z.device)
        inside = positive & (place[graph] >= 0)
        cell = (place[graph] * length + source) * length + target
        weight = z.new_zeros(count * length * length).index_add_(0, cell.where(inside, 0), inside.to(z.dtype))
        weight = weight.view(count, length, length)
        score = rows @ rows.transpose(1, 2)
        candidate = score if bucket.mask is None else score.masked_fill(~bucket.mask[:, None, :], -torch.inf)
        known = weight > 0
        itself = torch.eye(length, dtype=torch.bool, device=z.device)
        total = weight.sum((1, 2))
        for suffix, among, own in (
            ("", candidate, 1),
            ("_filt", candidate.masked_fill(known, -torch.inf), 0),
            ("_filt_self", candidate.masked_fill(known | itself, -torch.inf), 0),
        ):
            rank = _rank(score, among, own)
            for name, value in zip(names, (1 / rank, *((rank <= k).to(z.dtype) for k in HITS))):
                mean = (weight * value).sum((1, 2)) / total
                result[name + suffix][graphs] = mean.nan_to_num(0.0) if suffix == "" else mean
    return result


def _rank(score: Tensor, among: Tensor, own: int) -> Tensor:
    """Rank of every score among a row of candidates, of which ``own`` are the score itself."""
    ordered = among.sort(dim=-1).values
    length = ordered.shape[-1]
    above = length - torch.searchsorted(ordered, score, right=True)
    not_below = length - torch.searchsorted(ordered, score)
    return 1 + (above + not_below - own).to(score.dtype) / 2
