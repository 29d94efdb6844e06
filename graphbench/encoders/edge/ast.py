"""Edges of ogbg-code2: of the syntax tree or to the next token, in their own or in the reverse direction."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import edge_features, embed
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("ASTEdge")
class ASTEdge(FeatureEncoder):
    """Embedding of syntax-tree edges (ogbg-code2): kind and direction.

    e_ij = kinds[0: syntax tree, 1: next token] + directions[0: as stored, 1: reverse].

    Args:
        dim: width of the result.

    Shape:
        edge_attr (E, 2) int64 -> (E, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int]) -> None:
        super().__init__()
        self.type_emb = nn.Embedding(2, dim)
        self.direction_emb = nn.Embedding(2, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(E, dim) first edge states."""
        a = edge_features(batch, "ASTEdge")
        if a.dim() != 2 or a.shape[1] != 2:
            raise ValueError(f"ASTEdge reads kind and direction, received edge_attr of shape {tuple(a.shape)}")
        return embed(self.type_emb, a[:, 0], "ASTEdge, kind,") + embed(self.direction_emb, a[:, 1], "ASTEdge, way,")
