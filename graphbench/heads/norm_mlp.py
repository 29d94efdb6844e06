"""Heads of pre-norm models: a last norm, then linear maps with GELU between them (GRPE, FFGT)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.heads.contract import Head, Row
from graphbench.heads.pooling import PoolsNodes, pooling_function
from graphbench.layers.norm import LayerNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("norm_mlp_node")
class NormMLPNodeHead(Head):
    """LayerNorm and MLP on every node, whose hidden layers keep the width.

    y_i = W_L gelu( .. gelu(W_1 LayerNorm(h_i)) ).

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        layers_post_mp: L, linear maps.

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    capturable: ClassVar[bool] = True
    predicts: ClassVar[Row | None] = "node"
    accepts_graph_token: ClassVar[bool] = False

    def __init__(
        self, dim_in: FromContext[int], out_dim: FromContext[int], *, layers_post_mp: FromContext[int] = 2
    ) -> None:
        super().__init__()
        self.norm = LayerNorm(dim_in)
        self.hidden = nn.ModuleList(nn.Linear(dim_in, dim_in) for _ in range(max(layers_post_mp, 1) - 1))
        self.lin = nn.Linear(dim_in, out_dim)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, out_dim) predictions of the nodes."""
        return self._predict(h)

    def _predict(self, rows: Tensor) -> Tensor:
        rows = self.norm(rows)
        for linear in self.hidden:
            rows = nn.functional.gelu(linear(rows))
        return self.lin(rows)


@register("norm_mlp_graph")
class NormMLPGraphHead(NormMLPNodeHead, PoolsNodes):
    """LayerNorm and MLP on one pooled row per graph: :class:`NormMLPNodeHead` on that row.

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        layers_post_mp: linear maps.
        pooling: ``graph_token`` (the first node of every graph), ``add``, ``mean`` or ``max``.

    Shape:
        h (N, dim_in) -> (G, out_dim); an empty graph is predicted from a row of zeros.
    """

    capturable: ClassVar[bool] = True
    predicts: ClassVar[Row | None] = "graph"
    accepts_graph_token: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        layers_post_mp: FromContext[int] = 2,
        pooling: FromContext[str] = "graph_token",
    ) -> None:
        super().__init__(dim_in, out_dim, layers_post_mp=layers_post_mp)
        self.pool = pooling_function(pooling)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, out_dim) predictions of the graphs."""
        return self._predict(self.pooled(h, batch))
