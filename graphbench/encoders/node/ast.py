"""Nodes of the abstract syntax trees of ogbg-code2: type, attribute and depth."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import embed, node_features
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

# Rows of the mapping files that OGB ships with ogbg-code2; depths beyond the last one share it, as in OGB's example.
NODE_TYPES = 98
NODE_ATTRIBUTES = 10_030
MAX_DEPTH = 20


@register("ASTNode")
class ASTNode(FeatureEncoder):
    """Embedding of syntax-tree nodes (ogbg-code2): type, attribute and depth.

    h_i = types[type of i] + attributes[attribute of i] + depths[min(depth of i, 20)].

    Args:
        dim: width of the result.

    Shape:
        x (N, 3) int64: type, attribute, depth -> (N, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int]) -> None:
        super().__init__()
        self.type_emb = nn.Embedding(NODE_TYPES, dim)
        self.attribute_emb = nn.Embedding(NODE_ATTRIBUTES, dim)
        self.depth_emb = nn.Embedding(MAX_DEPTH + 1, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim) first node states."""
        x = node_features(batch, "ASTNode")
        if x.dim() != 2 or x.shape[1] != 3:
            raise ValueError(f"ASTNode reads type, attribute and depth, received x of shape {tuple(x.shape)}")
        h = embed(self.type_emb, x[:, 0], "ASTNode, type,")
        h = h + embed(self.attribute_emb, x[:, 1], "ASTNode, attribute,")
        return h + embed(self.depth_emb, x[:, 2].clamp(max=MAX_DEPTH), "ASTNode, depth,")
