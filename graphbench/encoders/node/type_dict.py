"""One learned vector per node type."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import embed, node_features
from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("TypeDictNode")
class TypeDictNode(FeatureEncoder):
    """Embedding of the node type.

    h_i = table[type of i], the type being the first column of ``batch.x`` (ZINC: 28 atom types).

    Args:
        dim: width of the result.
        num_types: size of the vocabulary (``dataset.node_encoder_num_types``).

    Shape:
        x (N, 1) int64 -> (N, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int], num_types: FromContext[int]) -> None:
        super().__init__()
        if num_types < 1:
            raise ArgumentError(
                "num_types",
                f"TypeDictNode reads whole numbers, categories, and must know how many there are: 1 or more, received "
                f"{num_types}. Features that are real numbers are for LinearNode",
            )
        self.type_emb = nn.Embedding(num_types, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim) first node states."""
        x = node_features(batch, "TypeDictNode")
        return embed(self.type_emb, x if x.dim() == 1 else x[:, 0], "TypeDictNode")
