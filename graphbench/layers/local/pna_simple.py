"""Principal neighbourhood aggregation of the states themselves (https://arxiv.org/abs/2004.05718), as used on OGB."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.layers.contract import LocalLayer
from graphbench.ops.propagate import gather, max_at_target, mean_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

_EPS = 1e-5


@register("PNASimple")
class PNASimple(LocalLayer):
    """Four aggregates of the neighbours, each as it is, amplified and attenuated by the degree.

    Equation, d_t edges into t, delta the mean of log(d + 1) over the training nodes::

        h'_t = W [a_t | log(d_t + 1) / delta a_t | delta / log(d_t + 1) a_t] + b
        a_t = [mean_s h_s | max_s h_s | min_s h_s | std_s h_s]        over the sources s of edges into t

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        degrees: histogram of in-degrees of the training graphs, from which delta is computed; None: delta = 1.

    Shape:
        h (N, dim_in), e -> h' (N, dim_out), e; edge states are not read. A node without messages has 0 in all
        aggregates.

    Differences from the paper: messages are the neighbours' states, without a map of both ends and the edge, and one
    map follows without the node's own state (a residual adds it), as in the authors' program for OGB. The standard
    deviation is 0 below 0.0032, as in PyG. :class:`~graphbench.layers.local.pna.PNA` is GraphGPS's.
    """

    capturable: ClassVar[bool] = True

    mean_log_degree: Tensor

    def __init__(
        self, dim_in: FromContext[int], dim_out: FromContext[int], *, degrees: FromContext[Sequence[int] | None] = None
    ) -> None:
        super().__init__()
        self.lin = nn.Linear(12 * dim_in, dim_out)
        self.register_buffer("mean_log_degree", torch.tensor(_mean_log_degree(degrees)))

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        adj = batch.adjacency()
        message = gather(adj, h, "source")
        mean = mean_at_target(adj, message)
        variance = mean_at_target(adj, message.square()) - mean.square()
        # Where the variance is nothing but rounding, its root would have an infinite gradient.
        spread = variance.clamp(min=_EPS).sqrt().masked_fill(variance <= _EPS, 0.0)
        aggregates = torch.cat([mean, max_at_target(adj, message), -max_at_target(adj, -message), spread], dim=1)
        log_degree = batch.derived(_log_degree).to(h.dtype)
        scale = log_degree / self.mean_log_degree.to(h.dtype)
        inverse = self.mean_log_degree.to(h.dtype) / log_degree.clamp(min=math.log(2.0))
        return self.lin(torch.cat([aggregates, scale * aggregates, inverse * aggregates], dim=1)), e


def _mean_log_degree(degrees: Sequence[int] | None) -> float:
    """Mean of log(d + 1) over nodes, from how many there are of every degree d."""
    nodes = sum(degrees or ())
    if degrees is None or not nodes:
        return 1.0
    mean = sum(count * math.log(degree + 1) for degree, count in enumerate(degrees)) / nodes
    return mean or 1.0  # no edges at all


def _log_degree(batch: GraphBatch) -> Tensor:
    """(N, 1) float64: log of one plus the edges into a node."""
    arriving = batch.edge_index[1]
    degree = torch.zeros(batch.num_nodes, dtype=torch.float64, device=batch.device)
    return degree.index_add_(0, arriving, torch.ones_like(arriving, dtype=torch.float64)).log1p_().unsqueeze(1)
