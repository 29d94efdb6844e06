"""Softmax attention as a loop over graphs, all probabilities of a graph in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from graphbench.structures import Ragged


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    dropout_p: float,
    bias: Tensor | None,
    packed: Tensor | None = None,
) -> Tensor:
    """See :func:`graphbench.ops.softmax_attention.softmax_attention`; ``packed`` is not read."""
    blocks = [v.new_zeros(0, *v.shape[1:])]
    node = 0
    for size, weights in zip(ragged.sizes, softmax_weights(q, k, ragged, bias), strict=True):
        dropped = torch.dropout(weights, dropout_p, dropout_p > 0)
        blocks.append(torch.einsum("hij,jhe->ihe", dropped, v[node : node + size]))
        node += size
    return torch.cat(blocks)


def softmax_weights(q: Tensor, k: Tensor, ragged: Ragged, bias: Tensor | None = None) -> Iterator[Tensor]:
    """The weights themselves, (H, n, n) graph by graph, row i for query i; arguments as of the operator."""
    node = pair = 0
    for size in ragged.sizes:
        rows = slice(node, node + size)
        scores = torch.einsum("ihd,jhd->hij", q[rows], k[rows]) / math.sqrt(q.shape[2])
        if bias is not None:
            scores = scores + bias[pair : pair + size * size].view(size, size, bias.shape[1]).permute(2, 0, 1)
        yield torch.softmax(scores, dim=-1)
        node, pair = node + size, pair + size * size
