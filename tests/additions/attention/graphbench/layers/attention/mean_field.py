"""Mean of the graph as a global module: the smallest there can be."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.layers.contract import GlobalAttention
from graphbench.ops.segment import segment_mean, segment_repeat
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("MeanField")
class MeanField(GlobalAttention):
    """The mean state of a graph, handed to each of its nodes.

    Equation::

        h'_i = scale * W mean_j(h_j)

    Args:
        dim: channels.
        scale: factor of the mean.

    Shape:
        h (N, dim) -> (N, dim)
    """

    def __init__(self, dim: FromContext[int], *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.lin = nn.Linear(dim, dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """No residual, no norm."""
        mean = segment_mean(self.lin(h), batch.ragged)
        return self.scale * segment_repeat(mean, batch.ragged)
