"""Attention by a loop over graphs with the dense n x n matrix of weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphbench.structures import Ragged


def pair_attention(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, weight: str) -> Tensor:
    """See :func:`graphbench.ops.pair_attention.pair_attention`."""
    v = v.expand(-1, q.shape[1], -1)
    blocks = [v.new_zeros(0, *v.shape[1:])]
    values = v.split(list(ragged.sizes)) if ragged.sizes else ()
    for weights_hij, v_jhf in zip(pair_weights(q, k, ragged, weight), values, strict=True):
        blocks.append(torch.einsum("hij,jhf->ihf", weights_hij, v_jhf))
    return torch.cat(blocks)


def pair_weights(q: Tensor, k: Tensor, ragged: Ragged, weight: str) -> Iterator[Tensor]:
    """The weights themselves, (H, n, n) graph by graph, each row divided by its sum; arguments as of the operator."""
    parts = (x.split(list(ragged.sizes)) if ragged.sizes else () for x in (q, k))
    for q_ihd, k_jhd in zip(*parts, strict=True):
        if weight == "sigmoid":
            weights_hij = torch.sigmoid(torch.einsum("ihd,jhd->hij", q_ihd, k_jhd))
        else:
            score_hij = q_ihd.sum(2).t().unsqueeze(2) + k_jhd.sum(2).t().unsqueeze(1)
            weights_hij = torch.softmax(torch.where(score_hij > 0, score_hij, 0.2 * score_hij), 2)
        yield weights_hij / weights_hij.sum(2, keepdim=True)
