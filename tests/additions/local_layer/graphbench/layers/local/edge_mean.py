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
        dim: channels.
        bias: whether the map has one.

    Shape:
        h (N, dim) -> (N, dim)
    """

    def __init__(self, dim: FromContext[int], *, bias: bool = True) -> None:
        super().__init__()
        self.lin = nn.Linear(dim, dim, bias=bias)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """No residual, no norm."""
        return propagate(batch.adjacency(norm="row"), self.lin(h))
