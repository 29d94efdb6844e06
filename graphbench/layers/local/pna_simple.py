"""Principal neighbourhood aggregation as used on OGB (https://arxiv.org/abs/2004.05718): of states, and in towers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.layers.contract import LocalLayer
from graphbench.layers.grouped_linear import GroupedLinear, check_towers
from graphbench.ops.propagate import gather, max_at_target, mean_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

_EPS = 1e-5


@register("PNASimple")
class PNASimple(LocalLayer):
    """Principal neighbourhood aggregation: four aggregates, each as it is, amplified and attenuated by the degree.

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
        message = gather(batch.adjacency(), h, "source")
        return self.lin(scaled_aggregates(message, batch, self.mean_log_degree)), e


@register("PNATowers")
class PNATowers(LocalLayer):
    """Principal neighbourhood aggregation on groups of channels that have their own maps ("towers").

    Equations, c the channels of a tower, a_t and the two scales as of :class:`PNASimple`, of messages m::

        m_st = W_pre [h_t | h_s]_c + b_pre
        h'_t = W_out [.. | W_post [h_t | a_t | log(d_t + 1) / delta a_t | delta / log(d_t + 1) a_t]_c + b_post | ..] + b

    Args:
        dim_in: channels of the input, a multiple of ``towers``.
        dim_out: channels of the output, a multiple of ``towers``.
        degrees: see :class:`PNASimple`.
        towers: number of groups of channels.

    Shape:
        h (N, dim_in), e -> h' (N, dim_out), e; edge states are not read.

    Differences from the paper: none, with edges left out (PyG's ``PNAConv`` with ``divide_input``).
    """

    capturable: ClassVar[bool] = True

    mean_log_degree: Tensor

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        degrees: FromContext[Sequence[int] | None] = None,
        towers: int = 1,
    ) -> None:
        super().__init__()
        check_towers(towers, dim_in, dim_out)
        inside, self.towers = dim_in // towers, towers
        self.target = GroupedLinear(towers, inside, inside)
        self.source = GroupedLinear(towers, inside, inside, bias=False)
        self.post = GroupedLinear(towers, 13 * inside, dim_out // towers)
        self.lin = nn.Linear(dim_out, dim_out)
        self.register_buffer("mean_log_degree", torch.tensor(_mean_log_degree(degrees)))

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        x = h.view(len(h), self.towers, h.shape[1] // self.towers)
        adj = batch.adjacency()
        message = gather(adj, self.target(x), "target") + gather(adj, self.source(x), "source")
        aggregates = scaled_aggregates(message, batch, self.mean_log_degree)
        return self.lin(self.post(torch.cat([x, aggregates], dim=2)).flatten(1)), e


def scaled_aggregates(message: Tensor, batch: GraphBatch, mean_log_degree: Tensor) -> Tensor:
    """Mean, maximum, minimum and deviation of the messages into every node, plain, amplified and attenuated.

    Args:
        message: (E, .., c).
        batch: the graphs.
        mean_log_degree: () delta.

    Returns:
        (N, .., 12 c)
    """
    adj = batch.adjacency()
    mean = mean_at_target(adj, message)
    variance = mean_at_target(adj, message.square()) - mean.square()
    # Where the variance is nothing but rounding, its root would have an infinite gradient.
    spread = variance.clamp(min=_EPS).sqrt().masked_fill(variance <= _EPS, 0.0)
    aggregates = torch.cat([mean, max_at_target(adj, message), -max_at_target(adj, -message), spread], dim=-1)
    log_degree = batch.derived(_log_degree).to(message.dtype).view(-1, *(1 for _ in message.shape[1:]))
    delta = mean_log_degree.to(message.dtype)
    inverse = delta / log_degree.clamp(min=math.log(2.0))
    return torch.cat([aggregates, log_degree / delta * aggregates, inverse * aggregates], dim=-1)


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
