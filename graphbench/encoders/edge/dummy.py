"""One learned vector for all edges, for layers that need edge features where the data set has none."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("DummyEdge")
class DummyEdge(FeatureEncoder):
    """One learned vector for all edges.

    e_ij = the one row of a table.

    Args:
        dim: width of the result.

    Shape:
        batch with E edges -> (E, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int]) -> None:
        super().__init__()
        self.type_emb = nn.Embedding(1, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(E, dim) first edge states."""
        return self.type_emb.weight.expand(batch.num_edges, -1)
