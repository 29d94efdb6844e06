"""Generalised aggregation of DeeperGCN (https://arxiv.org/abs/2006.07739)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.layers.contract import LocalLayer
from graphbench.layers.norm import BatchNorm, NormedSequential
from graphbench.ops.propagate import edge_softmax, gather, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("GENConv")
class GENConv(LocalLayer):
    """Softmax aggregation: messages weighted by the softmax of the messages themselves, channel by channel.

    Equations::

        m_st = relu(h_s + e_st) + 1e-7
        h'_t = W_2 relu(BN(W_1 (h_t + sum_s softmax_s(t m_st) * m_st)))           mlp_layers = 2
        h'_t = W (h_t + sum_s softmax_s(t m_st) * m_st) + b                       mlp_layers = 1

    Args:
        dim_in: channels of the input; another number than ``dim_out`` adds a linear map for h_s and one for h_t.
        dim_out: channels of the output; W_1 doubles them.
        dim_edge: channels of the edge states; another number than ``dim_out`` adds a linear map.
        mlp_layers: linear maps after the aggregation, 1 or 2.
        temperature: t.
        learn_temperature: t is learned, from there on.
        constant_weights: no gradient through the softmax (``softmax_sg`` in the authors' code).
        bias: biases in W_1 and W_2.

    Shape:
        h (N, dim_in), e (E, dim_edge) or None -> h' (N, dim_out), e. Without e its term is 0.

    Differences from the paper: no message norm. Two maps without biases and t = 1, not learned, are what PyG's
    ``GENConv`` does by default.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int] = 0,
        mlp_layers: int = 2,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        constant_weights: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        check_one_of((1, 2), mlp_layers=mlp_layers)
        self.temperature = nn.Parameter(torch.tensor([temperature])) if learn_temperature else temperature
        self.constant_weights = constant_weights
        self.lin_source = nn.Linear(dim_in, dim_out, bias=False) if dim_in != dim_out else None
        self.lin_target = nn.Linear(dim_in, dim_out, bias=False) if dim_in != dim_out else None
        self.lin_edge = nn.Linear(dim_edge, dim_out, bias=False) if dim_edge not in (0, dim_out) else None
        if mlp_layers == 1:
            self.mlp = NormedSequential(nn.Linear(dim_out, dim_out))
            return
        self.mlp = NormedSequential(
            nn.Linear(dim_out, 2 * dim_out, bias=bias),
            BatchNorm(2 * dim_out),
            nn.ReLU(),
            nn.Linear(2 * dim_out, dim_out, bias=bias),
        )

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual and norm; edge states as they came."""
        adj = batch.adjacency()
        h_source = h if self.lin_source is None else self.lin_source(h)
        h_target = h if self.lin_target is None else self.lin_target(h)
        message = gather(adj, h_source, "source")
        if e is not None:
            message = message + (e if self.lin_edge is None else self.lin_edge(e))
        message = message.relu() + 1e-7
        weights = edge_softmax(adj, self.temperature * message)
        neighbours = sum_at_target(adj, (weights.detach() if self.constant_weights else weights) * message)
        return self.mlp(neighbours + h_target, batch), e
