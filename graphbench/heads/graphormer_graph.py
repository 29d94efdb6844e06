"""One prediction per graph, from its graph token: the head of Graphormer."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.contract import HasPooling
from graphbench.heads.contract import Head
from graphbench.heads.pooling import pooling_function
from graphbench.layers.norm import LayerNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("graphormer_graph")
class GraphormerGraphHead(Head, HasPooling):
    """Linear map of one pooled row per graph, after a LayerNorm of the nodes.

    y_g = W pool over the nodes of g ( LayerNorm(h_i) ) + b.

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        pooling: ``graph_token`` (the first node of every graph), ``add``, ``mean`` or ``max``.

    Shape:
        h (N, dim_in) -> (G, out_dim); an empty graph is predicted from a row of zeros.
    """

    capturable: ClassVar[bool] = True
    predicts = "graph"

    def __init__(
        self, dim_in: FromContext[int], out_dim: FromContext[int], *, pooling: FromContext[str] = "graph_token"
    ) -> None:
        super().__init__()
        self.pool = pooling_function(pooling)
        self.norm = LayerNorm(dim_in)
        self.lin = nn.Linear(dim_in, out_dim)

    def pooled(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, dim_in) the row of every graph that the linear map reads."""
        return self.pool(self.norm(h), batch.ragged)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, out_dim) predictions of the graphs."""
        return self.lin(self.pooled(h, batch))
