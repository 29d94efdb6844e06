"""Convolutions of OGB's baselines, which also begin GraphTrans (https://arxiv.org/abs/2005.00687)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.contract import LocalLayer
from graphbench.layers.norm import BatchNorm, NormedSequential
from graphbench.ops.propagate import gather, relu_sum, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("OGBGCN")
class OGBGCN(LocalLayer):
    """GCN with edge states: messages pass a ReLU before they are weighted.

    Equation, d_t counting the edges into t, plus one::

        x = W h + b,   h'_t = sum over edges s -> t of relu(x_s + e_st) / sqrt(d_s d_t) + relu(x_t + r) / d_t

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        dim_edge: channels of the edge states; another number than ``dim_out`` adds a linear map.

    Shape:
        h (N, dim_in), e (E, dim_edge) or None -> h' (N, dim_out), e. Without e its term is 0.

    Differences from the released code: degrees count arriving edges, there leaving ones, which is the same on
    undirected graphs; edges from a node to itself are left out. r starts at 0, there from N(0, 1).
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim_in: FromContext[int], dim_out: FromContext[int], *, dim_edge: FromContext[int] = 0) -> None:
        super().__init__()
        self.lin = nn.Linear(dim_in, dim_out)
        self.root = nn.Parameter(torch.zeros(1, dim_out))
        self.lin_edge = nn.Linear(dim_edge, dim_out) if dim_edge not in (0, dim_out) else None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        adj = batch.adjacency(norm="sym", self_loops=True)  # the edges, then a loop per node with weight 1 / d_t
        assert adj.weight is not None
        message, loop = gather(adj, self.lin(h), "source").tensor_split([batch.num_edges])
        if e is not None:
            message = message + (e if self.lin_edge is None else self.lin_edge(e))
        weighted = torch.cat([message, loop + self.root]).relu() * adj.weight.to(h.dtype).unsqueeze(1)
        return sum_at_target(adj, weighted), e


@register("OGBGIN")
class OGBGIN(LocalLayer):
    """GIN with edge states and a BatchNorm inside its MLP.

    Equation::

        h'_t = W_2 relu(BN(W_1 ((1 + eps) x_t + sum over edges s -> t of relu(x_s + e_st))))

    x = h, or a linear map of h where the widths differ.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        dim_edge: channels of the edge states; another number than ``dim_out`` adds a linear map.
        expansion: width inside the MLP as a multiple of ``dim_out``; 2 in OGB's programs, 1 in those of OGB-LSC.
        train_eps: eps is learned, from 0; False: 0, as in GSN's program.

    Shape:
        h (N, dim_in), e (E, dim_edge) or None -> h' (N, dim_out), e. Without e its term is 0.

    Differences from the released code: none known.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int] = 0,
        expansion: int = 2,
        train_eps: bool = True,
    ) -> None:
        super().__init__()
        check_at_least(1, expansion=expansion)
        inner = expansion * dim_out
        self.lin_in = nn.Linear(dim_in, dim_out) if dim_in != dim_out else None
        self.lin_edge = nn.Linear(dim_edge, dim_out) if dim_edge not in (0, dim_out) else None
        self.eps = nn.Parameter(torch.zeros(1)) if train_eps else None
        self.mlp = NormedSequential(nn.Linear(dim_out, inner), BatchNorm(inner), nn.ReLU(), nn.Linear(inner, dim_out))

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        adj = batch.adjacency()
        x = h if self.lin_in is None else self.lin_in(h)
        if e is None:
            neighbours = sum_at_target(adj, gather(adj, x, "source").relu())
        else:
            neighbours, _ = relu_sum(adj, x, e if self.lin_edge is None else self.lin_edge(e))
        heard = neighbours + x if self.eps is None else torch.addcmul(neighbours, x, 1 + self.eps)
        return self.mlp(heard, batch), e
