"""Mean over the incoming edges: the smallest local layer there can be."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.layers.contract import LocalLayer
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("EdgeMean")
class EdgeMean(LocalLayer):
    """The mean of the neighbours' states.

    Equation::

        h'_i = W mean_(j -> i) h_j

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        bias: whether the map has one.

    Shape:
        h (N, dim_in) -> (N, dim_out)
    """

    def __init__(self, dim_in: FromContext[int], dim_out: FromContext[int], *, bias: bool = True) -> None:
        super().__init__()
        self.lin = nn.Linear(dim_in, dim_out, bias=bias)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """No residual, no norm; edge states as they came."""
        return propagate(batch.adjacency(norm="row"), self.lin(h)), e
