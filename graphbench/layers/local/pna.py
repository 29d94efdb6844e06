"""Principal neighbourhood aggregation (https://arxiv.org/abs/2004.05718)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from graphbench.layers.contract import LocalLayer
from graphbench.layers.grouped_linear import GroupedLinear, check_towers
from graphbench.ops.propagate import gather, max_at_target, mean_at_target, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("PNA")
class PNA(LocalLayer):
    """Principal neighbourhood aggregation: several aggregates of the same messages, concatenated.

    Equations::

        m_st = W_pre [h_t | h_s | W_e e_st] + b_pre
        h'_t = W_out W_post [h_t | mean_s m_st | max_s m_st | sum_s m_st] + b

    Args:
        dim_in: channels of the input and of messages.
        dim_out: channels of the output.
        dim_edge: channels of the edge states.

    Shape:
        h (N, dim_in), e (E, dim_edge) -> h' (N, dim_out), e. A node without messages has 0 in all aggregates.

    Differences from the paper: mean, max and sum in place of mean, max, min and standard deviation, and no scaling by
    degree, as in GraphGPS; the degree histogram that its configurations carry (``gt.pna_degrees``) has therefore no
    effect, there as here. One tower, one linear map before and after (PyG's ``PNAConv``).
    """

    capturable: ClassVar[bool] = True
    needs_edges: ClassVar[bool] = True

    def __init__(self, dim_in: FromContext[int], dim_out: FromContext[int], *, dim_edge: FromContext[int]) -> None:
        super().__init__()
        self.edge_lin = nn.Linear(dim_edge, dim_in)
        self.pre = nn.Linear(3 * dim_in, dim_in)
        self.post = nn.Linear(4 * dim_in, dim_out)
        self.lin_out = nn.Linear(dim_out, dim_out)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        if e is None:
            raise ValueError("PNA needs edge states, received none (an edge encoder supplies them)")
        adj = batch.adjacency()
        # Products with node states are computed once per node, not once per edge.
        target, source, edge = self.pre.weight.chunk(3, dim=1)
        message = linear(self.edge_lin(e), edge, self.pre.bias)
        message = message + gather(adj, linear(h, target), "target") + gather(adj, linear(h, source), "source")
        aggregates = [mean_at_target(adj, message), max_at_target(adj, message), sum_at_target(adj, message)]
        return self.lin_out(self.post(torch.cat([h, *aggregates], dim=1))), e


@register("PNAUnscaled")
class PNAUnscaled(LocalLayer):
    """Mean, sum and maximum of messages, on groups of channels that have their own maps ("towers").

    Equations, c the channels of a tower::

        m_st = W_pre [h_t | h_s | W_e e_st]_c + b_pre                                  W_e is common to the towers
        h'_t = W_out [.. | W_post [h_t | mean_s m_st | sum_s m_st | max_s m_st]_c + b_post | ..] + b

    Args:
        dim_in: channels of the input, a multiple of ``towers``.
        dim_out: channels of the output, a multiple of ``towers``.
        dim_edge: channels of the edge states, where there are any.
        towers: number of groups of channels.

    Shape:
        h (N, dim_in), e (E, dim_edge) or None -> h' (N, dim_out), e. Without e its term is 0.

    Differences from the paper: no minimum, no deviation and no scaling by degree, as ``pna2`` of SAT's released code,
    which has four towers (PyG's ``PNAConv`` with ``divide_input``).
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int],
        towers: int = 1,
    ) -> None:
        super().__init__()
        check_towers(towers, dim_in, dim_out)
        inside, self.towers = dim_in // towers, towers
        self.edge_lin = nn.Linear(dim_edge, inside)
        self.pre = GroupedLinear(towers, 3 * inside, inside)
        self.post = GroupedLinear(towers, 4 * inside, dim_out // towers)
        self.lin_out = nn.Linear(dim_out, dim_out)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        x, adj = h.view(len(h), self.towers, h.shape[1] // self.towers), batch.adjacency()
        target, source, edge = self.pre.weight.chunk(3, dim=1)
        assert self.pre.bias is not None
        # Products with node states are computed once per node, not once per edge.
        message = gather(adj, _by_tower(x, target), "target") + gather(adj, _by_tower(x, source), "source")
        message = message + self.pre.bias.squeeze(1)
        if e is not None:
            message = message + torch.einsum("ec,tcd->etd", self.edge_lin(e), edge)
        aggregates = [mean_at_target(adj, message), sum_at_target(adj, message), max_at_target(adj, message)]
        return self.lin_out(self.post(torch.cat([x, *aggregates], dim=2)).flatten(1)), e


def _by_tower(x: Tensor, weight: Tensor) -> Tensor:
    """(N, towers, d) of x (N, towers, c) and weights (towers, c, d)."""
    return torch.bmm(x.transpose(0, 1), weight).transpose(0, 1)
