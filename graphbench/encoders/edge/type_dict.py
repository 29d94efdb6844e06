"""One learned vector per edge type."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import edge_features, embed
from graphbench.errors import check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("TypeDictEdge")
class TypeDictEdge(FeatureEncoder):
    """Embedding of the edge type.

    e_ij = table[type of ij], the type being the first column of ``batch.edge_attr`` (ZINC: 4 bond types).

    Args:
        dim: width of the result.
        num_types: size of the vocabulary (``dataset.edge_encoder_num_types``).

    Shape:
        edge_attr (E, 1) int64 -> (E, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int], num_types: FromContext[int]) -> None:
        super().__init__()
        check_at_least(1, num_types=num_types)
        self.type_emb = nn.Embedding(num_types, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(E, dim) first edge states."""
        attributes = edge_features(batch, "TypeDictEdge")
        return embed(self.type_emb, attributes if attributes.dim() == 1 else attributes[:, 0], "TypeDictEdge")
