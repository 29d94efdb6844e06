"""GECO's local block (LCB): features of the neighbourhood, concatenated before the global convolution.

Sancak et al., https://arxiv.org/abs/2406.12059, Section 3.2, Algorithms 4 and 7, and the alternatives of Table 6.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from graphbench.errors import ArgumentError
from graphbench.layers.attention.geco.node_order import arrange, restore
from graphbench.layers.attention.geco.sequence_conv import SequenceConv
from graphbench.layers.norm import BatchNorm
from graphbench.ops.propagate import edge_softmax, gather, propagate, sum_at_target
from graphbench.structures import GraphBatch


class LocalContext(nn.Module):
    """X' = BatchNorm([X, M(X)]), M(X) the features of a node's neighbourhood.

    - ``propagation``: A_hat X with A_hat = D^-1/2 A D^-1/2, no self loops and no parameters: the paper's LCB.
    - ``gat``: sum_s a_st x_s with a_st = softmax over s of leaky_relu_0.2(u . x_s + v . x_t), s the sources of edges
      into t; the paper mentions it without an equation.
    - ``conv-<length>``: a convolution of that length along the order of the nodes, one filter per channel (Table 6 has
      1, 10, 20 and 40). The paper does not give its position; here it replaces A_hat X.
    - ``none``: X' = X.

    Args:
        dim: channels of X.
        kind: M, as above.

    Shape:
        h (N, dim) -> (N, dim_out), dim_out = 2 dim, or dim with ``none``. M is ``near``, a name in stored checkpoints.

    Raises:
        ValueError: no such kind.
    """

    def __init__(self, dim: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.dim_out = dim if kind == "none" else 2 * dim
        self.near = _neighborhood_map(dim, kind)
        self.norm = None if self.near is None else BatchNorm(self.dim_out)

    def forward(self, h: Tensor, batch: GraphBatch, order: Tensor | None) -> Tensor:
        """(N, dim_out); ``order`` (see :mod:`.node_order`) is read by convolutions only."""
        if self.near is None or self.norm is None:
            return h
        return self.norm(torch.cat([h, self.near(h, batch, order)], dim=1), batch)


def _neighborhood_map(dim: int, kind: str) -> nn.Module | None:
    if kind == "none":
        return None
    if kind == "propagation":
        return Propagation()
    if kind == "gat":
        return NeighborAttention(dim)
    match = re.fullmatch(r"conv-([1-9]\d*)", kind)
    if match:
        return OrderedConv(dim, int(match[1]))
    raise ArgumentError(
        "local_block", f"local_block must be propagation, gat, conv-<length> (as in conv-10) or none, received {kind!r}"
    )


class Propagation(nn.Module):
    """A_hat X."""

    def forward(self, h: Tensor, batch: GraphBatch, order: Tensor | None) -> Tensor:
        """(N, d)."""
        return propagate(batch.adjacency(norm="sym"), h)


class NeighborAttention(nn.Module):
    """Mean of the neighbours with GAT's weights, without a map of the values."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.source = nn.Parameter(torch.empty(dim, 1))
        self.target = nn.Parameter(torch.empty(dim, 1))
        nn.init.xavier_uniform_(self.source)
        nn.init.xavier_uniform_(self.target)

    def forward(self, h: Tensor, batch: GraphBatch, order: Tensor | None) -> Tensor:
        """(N, d); 0 for a node without incoming edges."""
        adj = batch.adjacency()
        logit = gather(adj, h @ self.source, "source") + gather(adj, h @ self.target, "target")
        return sum_at_target(adj, edge_softmax(adj, leaky_relu(logit, 0.2)) * gather(adj, h, "source"))


class OrderedConv(nn.Module):
    """A convolution along the order of the nodes."""

    def __init__(self, dim: int, length: int) -> None:
        super().__init__()
        self.conv = SequenceConv(dim, length)

    def forward(self, h: Tensor, batch: GraphBatch, order: Tensor | None) -> Tensor:
        """(N, d)."""
        return restore(self.conv(arrange(h, order), batch), order)
