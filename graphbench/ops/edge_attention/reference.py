"""Attention along edges as a loop over nodes and their edges."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures.adjacency import Adjacency


def edge_attention(
    adj: Adjacency, q: Tensor, k: Tensor, v: Tensor, e: Tensor | None, clamp: float | None, eps: float
) -> Tensor:
    """See :func:`graphbench.ops.edge_attention.edge_attention`."""
    rows = [torch.zeros_like(v[0]) for _ in range(adj.num_nodes)]
    for t in range(adj.num_nodes):
        edges = (adj.target == t).nonzero().view(-1).tolist()
        if not edges:
            continue
        sources = adj.source[edges].tolist()
        products = [q[t] * k[s] * (1 if e is None else e[edge]) for edge, s in zip(edges, sources)]
        score_jh = torch.stack([product.sum(1) / q.shape[2] ** 0.5 for product in products])
        shifted_jh = score_jh - score_jh.amax(0) if clamp is None else score_jh.clamp(-clamp, clamp)
        weighted, total = torch.zeros_like(v[0]), torch.full_like(v[0, :, :1], eps)
        for weight_h, s in zip(shifted_jh.exp(), sources):
            weighted = weighted + weight_h.unsqueeze(1) * v[s]
            total = total + weight_h.unsqueeze(1)
        rows[t] = weighted / total
    return torch.stack(rows) if rows else v.clone()
