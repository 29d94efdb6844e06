"""Heads with an MLP that halves its width twice (SAN, EGT, Gradformer; GraphGPS on ZINC and PCQM4Mv2)."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from graphbench.contract import HasPooling
from graphbench.heads.contract import Head
from graphbench.heads.pooling import pooling_function
from graphbench.layers.activation import activation
from graphbench.layers.linear import Linear
from graphbench.layers.norm import LayerNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("san_graph")
class SANGraphHead(Head, HasPooling):
    """MLP on one pooled row per graph, whose hidden layers halve the width (SAN).

    y_g = W_3 act( W_2 act( W_1 pool over the nodes of g (h_i) ) ), widths d, d/2, d/4, out.

    Args:
        dim_in: width d of the hidden state.
        out_dim: width of the prediction.
        pooling: ``add``, ``mean`` or ``max``.
        act: activation (``gnn.act``).
        layer_norm: LayerNorm of h first, as EGT has it.

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
        pooling: FromContext[str] = "add",
        act: FromContext[str] = "relu",
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.norm = LayerNorm(dim_in) if layer_norm else nn.Identity()
        self.pool = pooling_function(pooling)
        self.act = activation(act)
        self.lin = narrowing_maps(dim_in, out_dim)

    def pooled(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, dim_in) the row of every graph that the MLP reads."""
        return self.pool(self.norm(h), batch.ragged)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, out_dim) predictions of the graphs."""
        return narrowed(self.pooled(h, batch), self.lin, self.act)


@register("san_node")
class SANNodeHead(Head):
    """MLP on every node, whose hidden layers halve the width (SAN).

    y_i = W_3 act( W_2 act( W_1 h_i ) ), widths d, d/2, d/4, out.

    Args:
        dim_in: width d of the hidden state.
        out_dim: width of the prediction.
        act: activation (``gnn.act``).
        layer_norm: LayerNorm of h first, as EGT has it.

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    capturable: ClassVar[bool] = True
    predicts = "node"
    accepts_graph_token: ClassVar[bool] = False

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        act: FromContext[str] = "relu",
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.norm = LayerNorm(dim_in) if layer_norm else nn.Identity()
        self.act = activation(act)
        self.lin = narrowing_maps(dim_in, out_dim)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, out_dim) predictions of the nodes."""
        return narrowed(self.norm(h), self.lin, self.act)


def narrowing_maps(dim_in: int, out_dim: int) -> nn.ModuleList:
    """Three linear maps; the first two halve the width."""
    widths = (dim_in, dim_in // 2, dim_in // 4, out_dim)
    return nn.ModuleList(Linear(a, b) for a, b in pairwise(widths))


def narrowed(h: Tensor, lin: nn.ModuleList, act: nn.Module) -> Tensor:
    """(R, out_dim) output of the maps, with the activation between them."""
    *hidden, last = lin
    for linear in hidden:
        h = act(linear(h))
    return last(h)
