"""Heads with a plain MLP, for graphs behind the pooling, as in the re-tuned LRGB (https://arxiv.org/abs/2309.00367)."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from graphbench.heads.contract import Head, Row
from graphbench.heads.pooling import PoolsNodes, pooling_function
from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.linear import Linear
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, NoNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.capacity import Level


@register("mlp_node")
class MLPNodeHead(Head):
    """MLP on every node.

    y_i = MLP(h_i).

    Every linear map follows a dropout, all but the last are followed by the activation.

    Attributes:
        normed: whether hidden maps have a BatchNorm, and no bias.

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        layers_post_mp: linear maps; 0 counts as 1.
        dim_hidden: width of the hidden layers; None: as the hidden state.
        act: activation (``gnn.act``).
        dropout: probability (``gnn.dropout``).

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    capturable: ClassVar[bool] = True
    predicts: ClassVar[Row | None] = "node"
    accepts_graph_token: ClassVar[bool] = False
    normed: ClassVar[bool] = False

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        layers_post_mp: FromContext[int] = 1,
        dim_hidden: int | None = None,
        act: FromContext[str] = "relu",
        dropout: FromContext[float] = 0.0,
    ) -> None:
        super().__init__()
        hidden = max(layers_post_mp, 1) - 1
        widths = [dim_in, *[dim_in if dim_hidden is None else dim_hidden] * hidden]
        self.lin = nn.ModuleList(Linear(a, b, bias=not self.normed) for a, b in pairwise(widths))
        self.lin.append(Linear(widths[-1], out_dim))
        self.norm: Modules[BatchNorm | NoNorm] = Modules(
            BatchNorm(width) if self.normed else NoNorm() for width in widths[1:]
        )
        self.dropout = Dropout(dropout)
        self.act = activation(act if hidden else "identity")

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, out_dim) predictions of the nodes."""
        return self._predict(h, batch, "node")

    def _predict(self, h: Tensor, batch: GraphBatch, level: Level) -> Tensor:
        *hidden, last = self.lin
        for linear, norm in zip(hidden, self.norm, strict=True):
            h = self.act(norm(linear(self.dropout(h)), batch, level))
        return last(self.dropout(h))


@register("batchnorm_mlp_node")
class BatchNormMLPNodeHead(MLPNodeHead):
    """MLP on every node with a BatchNorm before every activation, as in OGB's scripts for large graphs.

    Equation and arguments: :class:`MLPNodeHead`.
    """

    normed = True


@register("mlp_graph")
class MLPGraphHead(MLPNodeHead, PoolsNodes):
    """MLP on one pooled row per graph, with scale and shift.

    y_g = scale * MLP( pool over the nodes of g (h_i) ) + shift, the MLP of ``mlp_node``.

    With the pooling ``node_ensemble`` predictions are made for nodes and averaged.

    Attributes:
        scale: factor of the prediction, by which its targets were divided on average.
        shift: number added to the prediction.

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        layers_post_mp: linear maps; 0 counts as 1.
        pooling: ``add``, ``mean``, ``max`` or ``node_ensemble``.
        act: activation (``gnn.act``).
        dropout: probability (``gnn.dropout``).

    Shape:
        h (N, dim_in) -> (G, out_dim)

    Differences from the original:
        ``node_ensemble`` averages in training as well, where the original compares every node with its graph's target.
    """

    capturable: ClassVar[bool] = True
    predicts: ClassVar[Row | None] = "graph"
    accepts_graph_token: ClassVar[bool] = True
    scale: ClassVar[float] = 1.0
    shift: ClassVar[float] = 0.0

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        layers_post_mp: FromContext[int] = 1,
        pooling: FromContext[str] = "mean",
        act: FromContext[str] = "relu",
        dropout: FromContext[float] = 0.0,
    ) -> None:
        super().__init__(dim_in, out_dim, layers_post_mp=layers_post_mp, act=act, dropout=dropout)
        self.nodes_first = pooling == "node_ensemble"
        self.pool = pooling_function("mean" if self.nodes_first else pooling)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, out_dim) predictions of the graphs."""
        if self.nodes_first:
            y = self.pool(self._predict(h, batch, "node"), batch.ragged)
        else:
            y = self._predict(self.pooled(h, batch), batch, "graph")
        return self.scale * y + self.shift


@register("batchnorm_mlp_graph")
class BatchNormMLPGraphHead(MLPGraphHead):
    """MLP on one pooled row per graph with a BatchNorm before every activation: Graph MLP-Mixer and Graph ViT.

    Equation and arguments: :class:`MLPGraphHead`.
    """

    normed = True


@register("mlp_graph_zinc")
class ZINCGraphHead(MLPGraphHead):
    """MLP on one pooled row per graph, scaled to ZINC: :class:`MLPGraphHead` with mean and deviation of its targets."""

    scale = 2.0109
    shift = 0.0153


@register("mlp_graph_pcqm4m")
class PCQM4MGraphHead(MLPGraphHead):
    """MLP on one pooled row per graph, scaled to PCQM4M: :class:`MLPGraphHead` with mean and deviation of targets."""

    scale = 1.1623
    shift = 5.6896
