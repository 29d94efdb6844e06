"""Heads of networks whose last convolution is onto the classes, as in the papers of GCN, GAT and GraphSAGE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from graphbench.heads.contract import Head
from graphbench.layers.activation import activation
from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.local.gat import GAT
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.sage import SAGE
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class ConvolutionHead(Head):
    """Convolution onto the prediction, ``y = layer(drop(act(h)))``; a subclass names the layer.

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        act: ``gnn.act``.
        dropout: ``gnn.dropout``.
        settings: further arguments of the layer.

    Attributes:
        layer_class: layer from input and output width; reads no edge states.

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    layer_class: ClassVar[Callable[..., LocalLayer]]

    capturable: ClassVar[bool] = True
    predicts = "node"
    accepts_graph_token: ClassVar[bool] = False

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        act: FromContext[str] = "relu",
        dropout: FromContext[float] = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.layer = type(self).layer_class(dim_in, out_dim, **settings)
        self.act = activation(act)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, out_dim) predictions of the nodes."""
        return self.layer.step(self.dropout(self.act(h)), None, batch)[0]


@register("gcn_node")
class GCNHead(ConvolutionHead):
    """Last layer of GCN (https://arxiv.org/abs/1609.02907), onto the classes.

    Equation::

        y = A^ drop(act(h)) W + b

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        act: ``gnn.act``.
        dropout: ``gnn.dropout``.

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    layer_class = GCN


@register("gat_node")
class GATHead(ConvolutionHead):
    """Last layer of GAT (https://arxiv.org/abs/1710.10903), onto the classes, with one attention head.

    Equation::

        y = GAT(drop(act(h)))

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        act: ``gnn.act``.
        dropout: ``gnn.dropout``.
        attention_dropout: dropout of attention weights.

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    layer_class = GAT

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        act: FromContext[str] = "relu",
        dropout: FromContext[float] = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(dim_in, out_dim, act=act, dropout=dropout, attention_dropout=attention_dropout)


@register("sage_node")
class SAGEHead(ConvolutionHead):
    """Last layer of GraphSAGE (https://arxiv.org/abs/1706.02216) with mean aggregation, onto the classes.

    Equation::

        y = SAGE(drop(act(h)))

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        act: ``gnn.act``.
        dropout: ``gnn.dropout``.

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    layer_class = SAGE
