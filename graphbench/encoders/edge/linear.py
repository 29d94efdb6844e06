"""Edge features through one linear map."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import edge_features
from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("LinearEdge")
class LinearEdge(FeatureEncoder):
    """Linear map of the edge features.

    e_ij = W a_ij + b (MNIST, CIFAR10: one distance per edge).

    Args:
        dim: width of the result.
        edge_in: columns of ``batch.edge_attr``.

    Shape:
        edge_attr (E, edge_in) or, for one column, (E,) -> (E, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int], edge_in: FromContext[int]) -> None:
        super().__init__()
        if edge_in < 1:
            name = type(self).__name__
            raise ArgumentError(
                "edge_in", f"{name} needs edge features, received edge_in = {edge_in} (allowed: 1 or more)"
            )
        self.lin = nn.Linear(edge_in, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(E, dim) first edge states."""
        attributes = edge_features(batch, type(self).__name__).to(self.lin.weight.dtype)
        if attributes.dim() == 1:
            attributes = attributes[:, None]
        return self.lin(self.prepared(attributes))

    def prepared(self, attributes: Tensor) -> Tensor:
        """Input of the linear map: the features as they are."""
        return attributes
