"""Graph convolution (https://arxiv.org/abs/1609.02907)."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.layers.contract import LocalLayer
from graphbench.layers.input_linear import InputLinear
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch


@register("GCN")
class GCN(LocalLayer):
    """Graph convolution with symmetric normalisation.

    ``h' = A^ h W + b`` with ``A^ = D^-1/2 (A + I) D^-1/2``, computed once per batch.

    D counts incoming edges, the self loop included.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        bias: add b after the aggregation.
        self_loops: add I (exactly one loop per node, whatever the edges contain).
        norm: ``"sym"`` as above, ``"row"`` for D^-1 (A + I), ``"none"`` for plain sums.

    Shape:
        h (N, dim_in), e -> h' (N, dim_out), e; edge states are not read.

    Differences from the paper: without ``self_loops`` a node of degree 0 contributes and receives 0.
    """

    capturable: ClassVar[bool] = True
    reads_sparse: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        bias: bool = True,
        self_loops: bool = True,
        norm: Literal["sym", "row", "none"] = "sym",
    ) -> None:
        super().__init__()
        check_one_of(("sym", "row", "none"), norm=norm)
        self.self_loops = self_loops
        self.norm = norm
        self.lin = InputLinear(dim_in, dim_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(dim_out)) if bias else None
        nn.init.xavier_uniform_(self.lin.weight)

    def forward(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        adjacency = batch.adjacency(norm=self.norm, self_loops=self.self_loops)
        new = propagate(adjacency, self.lin(h))
        if self.bias is not None:
            new = new + self.bias
        return new, e

    def extra_repr(self) -> str:
        """Normalisation, in ``print(model)``."""
        return f"norm={self.norm}, self_loops={self.self_loops}"
