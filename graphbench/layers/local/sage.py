"""GraphSAGE with the mean aggregator (https://arxiv.org/abs/1706.02216)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.layers.contract import LocalLayer
from graphbench.layers.input_linear import InputLinear, propagated
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch


@register("SAGE")
class SAGE(LocalLayer):
    """GraphSAGE with mean aggregation.

    ``h'_t = W_1 mean over edges s -> t of h_s + W_2 h_t + b``.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        bias: add b.
        self_loops: a node counts among its neighbours.

    Shape:
        h (N, dim_in), e -> h' (N, dim_out), e; edge states are not read.

    Differences from the paper: all neighbours instead of a sample, as in PyG's ``SAGEConv``.
    """

    capturable: ClassVar[bool] = True
    reads_sparse: ClassVar[bool] = True

    def __init__(
        self, dim_in: FromContext[int], dim_out: FromContext[int], *, bias: bool = True, self_loops: bool = False
    ) -> None:
        super().__init__()
        self.self_loops = self_loops
        self.lin_neighbor = InputLinear(dim_in, dim_out, bias=bias)
        self.lin_self = InputLinear(dim_in, dim_out, bias=False)

    def forward(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        neighbours = propagated(batch.adjacency(norm="row", self_loops=self.self_loops), h)
        return self.lin_neighbor(neighbours) + self.lin_self(h), e
