"""Shortest path networks: every layer sums over all nodes within some hops (https://arxiv.org/abs/2206.01003)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.errors import check_at_least
from graphbench.layers.contract import LocalLayer
from graphbench.layers.norm import BatchNorm, NormedSequential
from graphbench.ops.propagate import gather, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency, adjacency
from graphbench.structures.shells import known_distances

_STORED = 256  # values of a distance of 8 bits


@register("SPN")
class SPN(LocalLayer):
    r"""GIN over shortest-path neighbourhoods, with learned weights of the hops.

    .. math:: h'_i = \mathrm{MLP}\Big((1 + \epsilon) h_i + \sum_{k=1}^{K} \alpha_k \sum_{j : d_{ji} = k} h_j\Big),
        \qquad \alpha = \mathrm{softmax}(a)

    MLP: linear, BatchNorm, ReLU, twice. d_ji: hops from j to i, from a transform.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output and inside the MLP.
        hops: K.
        eps: weight of the node itself, minus one.

    Shape:
        h (N, dim_in), e -> h' (N, dim_out), e; edge states are not read.

    Differences from the paper: none of its basic model; relations of R-SPN (one map per edge type) are not here.
    """

    def __init__(self, dim_in: FromContext[int], dim_out: FromContext[int], *, hops: int = 5, eps: float = 0.0) -> None:
        super().__init__()
        check_at_least(1, hops=hops)
        self.eps = eps
        self.hop_logits = nn.Parameter(torch.randn(hops))
        widths = ((dim_in, dim_out), (dim_out, dim_out))
        parts = [part for a, b in widths for part in (nn.Linear(a, b), BatchNorm(b), nn.ReLU())]
        self.mlp = NormedSequential(*parts)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Neighbour lists within K hops."""
        return {"HopNeighbors": {"cutoff": arguments["hops"]}}

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual; edge states as they came."""
        pairs, hop = batch.derived(_within)
        share = self.hop_logits.softmax(0)
        table = F.pad(share, (1, _STORED - 1 - len(share)))  # 0 for the node itself and for what is further away
        around = sum_at_target(pairs, gather(pairs, h, "source") * table[hop].unsqueeze(1))
        return self.mlp(torch.add(around, h, alpha=1 + self.eps), batch), e


def _within(batch: GraphBatch) -> tuple[Adjacency, Tensor]:
    """Pairs (j, i) of nodes whose distance is known, and their distances (P,) int64."""
    source, target, hop = known_distances(batch)
    return adjacency(torch.stack([source, target]), batch.num_nodes), hop
