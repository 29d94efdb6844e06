"""Negative sampling for link tasks that state the positive pairs only, drawn anew for every batch.

The sampling of PCQM-Contact (https://arxiv.org/abs/2206.08164): for every true pair (s, t) some targets from all nodes
of the graph, s itself included, that make no true pair with s and no pair twice.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import EdgeSet, GraphBatch

_PER_POSITIVE = 2
_TRIES = 10


def with_negatives(batch: GraphBatch, generator: torch.Generator) -> GraphBatch:
    """The batch with its positive pairs and newly drawn negative ones.

    Where ten tries find no free target (almost every node is a true one) a false pair is left out.

    Args:
        batch: batch on the host; pairs with target 1 are true, others are replaced.
        generator: generator of the draws.
    """
    asked, y = batch.edge_sets["label"], batch.y
    assert y is not None
    true = asked.index[:, y.reshape(len(y), -1)[:, 0] == 1]
    source = true[0].repeat_interleave(_PER_POSITIVE)
    graph = batch.ragged.graph_id[source]
    first, size = batch.ragged.ptr[graph], batch.ragged.size_tensor[graph]
    target = torch.empty_like(source)
    wrong = torch.ones_like(source, dtype=torch.bool)
    taken = _key(true, batch.num_nodes)
    for _ in range(_TRIES):
        uniform = torch.rand(int(wrong.sum()), generator=generator, dtype=torch.float64)
        target[wrong] = first[wrong] + (uniform * size[wrong]).long()
        key = _key(torch.stack([source, target]), batch.num_nodes)
        wrong = torch.isin(key, taken) | _repeated(key)
        if not bool(wrong.any()):
            break
    false = torch.stack([source, target])[:, ~wrong]
    index = torch.cat([true, false], dim=1)
    label = torch.cat([y.new_ones(true.shape[1]), y.new_zeros(false.shape[1])])
    order = batch.ragged.graph_id[index[0]].argsort(stable=True)  # pairs are grouped by graph
    counts = torch.bincount(batch.ragged.graph_id[index[0]], minlength=batch.num_graphs)
    ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    edge_sets = {**batch.edge_sets, "label": EdgeSet(index[:, order], ptr)}
    return batch.replace(edge_sets=edge_sets, y=label[order].view(-1, *y.shape[1:]))


def _key(pairs: Tensor, nodes: int) -> Tensor:
    return pairs[0] * nodes + pairs[1]


def _repeated(key: Tensor) -> Tensor:
    """True for all but the first of equal numbers."""
    ordered, order = key.sort(stable=True)
    later = torch.zeros_like(key, dtype=torch.bool)
    later[order[1:]] = ordered[1:] == ordered[:-1]
    return later
