"""Node features through one linear map."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import stored_features
from graphbench.errors import ArgumentError
from graphbench.layers.input_linear import InputLinear
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch


@register("LinearNode")
class LinearNode(FeatureEncoder):
    """Linear map of the node features.

    h_i = W x_i + b.

    Args:
        dim: width of the result.
        node_in: columns of ``batch.x``.

    Shape:
        x (N, node_in) -> (N, dim)
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: FromContext[int], node_in: FromContext[int]) -> None:
        super().__init__()
        if node_in < 1:
            raise ArgumentError(
                "node_in", f"LinearNode needs node features, received node_in = {node_in} (allowed: 1 or more)"
            )
        self.lin = InputLinear(node_in, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim) first node states."""
        x = stored_features(batch, type(self).__name__).to(self.lin.weight.dtype)
        return self.lin(self.prepared(x))

    def prepared(self, x: Features) -> Features:
        """Input of the linear map: the features as they are."""
        return x
