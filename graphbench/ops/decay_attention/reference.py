"""Attention with a decay mask as a loop over graphs, all factors and probabilities of a graph in memory."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.decay_attention.mask import Decay
from graphbench.structures import Ragged


def decay_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ragged: Ragged,
    index: Tensor,
    start: Tensor,
    mask: Decay,
    dropout_p: float,
    packed: Tensor | None = None,
) -> Tensor:
    """See :func:`graphbench.ops.decay_attention.decay_attention`; ``packed`` is not read."""
    blocks = [v.new_zeros(0, *v.shape[1:])]
    node = pair = 0
    for size in ragged.sizes:
        rows, pairs = slice(node, node + size), slice(pair, pair + size * size)
        weights = mask.weights(q[rows], k[rows], index[pairs], start)
        weights = torch.dropout(weights, dropout_p, dropout_p > 0)
        blocks.append(torch.einsum("hij,jhe->ihe", weights, v[rows]))
        node, pair = node + size, pair + size * size
    return torch.cat(blocks)
