"""The operators of this folder as loops over edges."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures.adjacency import Adjacency


def propagate(adj: Adjacency, h: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.propagate`."""
    rows = [torch.zeros_like(h[0]) for _ in range(adj.num_nodes)]
    for edge, (s, t) in enumerate(_edges(adj)):
        rows[t] = rows[t] + (h[s] if adj.weight is None else adj.weight[edge].to(h.dtype) * h[s])
    return torch.stack(rows) if rows else h.clone()


def gather(adj: Adjacency, h: Tensor, end: str) -> Tensor:
    """See :func:`graphbench.ops.propagate.gather`."""
    rows = [h[s if end == "source" else t] for s, t in _edges(adj)]
    return torch.stack(rows) if rows else h.new_zeros(0, *h.shape[1:])


def sum_at_target(adj: Adjacency, messages: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.sum_at_target`."""
    rows = [messages.new_zeros(messages.shape[1:]) for _ in range(adj.num_nodes)]
    for edge, (_, t) in enumerate(_edges(adj)):
        rows[t] = rows[t] + messages[edge]
    return torch.stack(rows) if rows else messages.new_zeros(0, *messages.shape[1:])


def max_at_target(adj: Adjacency, messages: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.max_at_target`."""
    rows = []
    for node in range(adj.num_nodes):
        arriving = [edge for edge, (_, t) in enumerate(_edges(adj)) if t == node]
        rows.append(messages[arriving].amax(0) if arriving else messages.new_zeros(messages.shape[1:]))
    return torch.stack(rows) if rows else messages.new_zeros(0, *messages.shape[1:])


def edge_softmax(adj: Adjacency, logits: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.edge_softmax`."""
    out = torch.empty_like(logits)
    for node in range(adj.num_nodes):
        arriving = [edge for edge, (_, t) in enumerate(_edges(adj)) if t == node]
        if arriving:
            out = out.index_copy(0, torch.as_tensor(arriving, device=out.device), torch.softmax(logits[arriving], 0))
    return out


def relu_sum(adj: Adjacency, h: Tensor, e: Tensor, eps: Tensor | None) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.propagate.relu_sum`."""
    total = sum_at_target(adj, torch.relu(gather(adj, h, "source") + e))
    return (total if eps is None else total + (1 + eps) * h), e


def gated_mean(
    adj: Adjacency,
    target: Tensor,
    source: Tensor,
    edge: Tensor,
    value: Tensor,
    own: Tensor | None,
    gate: Tensor | None,
    eps: float,
    packed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.propagate.gated_mean`; ``packed`` is not read."""
    logit = gather(adj, target, "target") + gather(adj, source, "source") + edge
    weight = torch.sigmoid(logit) if gate is None else torch.sigmoid(logit) * gate
    total = sum_at_target(adj, weight * gather(adj, value, "source"))
    mean = total / (sum_at_target(adj, weight) + eps)
    return (mean if own is None else own + mean), logit


def _edges(adj: Adjacency) -> list[tuple[int, int]]:
    return list(zip(adj.source.tolist(), adj.target.tolist()))
