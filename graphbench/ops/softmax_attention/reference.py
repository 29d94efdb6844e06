"""Softmax attention as a loop over graphs, all probabilities of a graph in memory."""

from __future__ import annotations

import math

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
    node = pair = 0
    for size in ragged.sizes:
        rows = slice(node, node + size)
        scores = torch.einsum("ihd,jhd->hij", q[rows], k[rows]) / math.sqrt(q.shape[2])
        if bias is not None:
            scores = scores + bias[pair : pair + size * size].view(size, size, bias.shape[1]).permute(2, 0, 1)
        weights = torch.dropout(torch.softmax(scores, dim=-1), dropout_p, dropout_p > 0)
        blocks.append(torch.einsum("hij,jhe->ihe", weights, v[rows]))
        node, pair = node + size, pair + size * size
    return torch.cat(blocks)
