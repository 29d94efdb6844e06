"""One prediction per graph."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.heads.contract import Head
from graphbench.heads.mlp import PredictionMLP
from graphbench.heads.pooling import PoolsNodes, pooling_function
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("graph")
class GraphHead(Head, PoolsNodes):
    """MLP on one pooled row per graph.

    y_g = MLP( pool over the nodes of g (h_i) ).

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        layers_post_mp: linear maps of the MLP (:class:`PredictionMLP`).
        pooling: ``add``, ``mean`` or ``max``.

    Shape:
        h (N, dim_in) -> (G, out_dim); an empty graph is predicted from a row of zeros.
    """

    capturable: ClassVar[bool] = True
    predicts = "graph"

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        layers_post_mp: FromContext[int] = 1,
        pooling: FromContext[str] = "add",
    ) -> None:
        super().__init__()
        self.pool = pooling_function(pooling)
        self.mlp = PredictionMLP(dim_in, out_dim, layers_post_mp)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, out_dim) predictions of the graphs."""
        return self.mlp(self.pooled(h, batch))
