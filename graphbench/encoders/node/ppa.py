"""One learned vector for all nodes, for graphs without node features (ogbg-ppa)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("PPANode")
class PPANode(FeatureEncoder):
    """One learned vector for all nodes (ogbg-ppa); ``batch.x`` is not read.

    h_i = the one row of a table.

    Args:
        dim: width of the result.

    Shape:
        batch with N nodes -> (N, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int]) -> None:
        super().__init__()
        self.type_emb = nn.Embedding(1, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim) first node states."""
        return self.type_emb.weight.expand(batch.num_nodes, -1)
