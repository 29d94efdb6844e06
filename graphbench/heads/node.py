"""One prediction per node."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.heads.contract import Head
from graphbench.heads.mlp import PredictionMLP
from graphbench.layers.input_linear import BeginsWithLinear, InputLinear, Readable
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("node", "inductive_node")
class NodeHead(Head, BeginsWithLinear):
    """MLP on every node.

    y_i = MLP(h_i).

    Transductive (``node``: one graph, a subset of the rows counts) and inductive (``inductive_node``: many graphs, all
    rows count) tasks have the same head; the training loop selects rows.

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        layers_post_mp: linear maps of the MLP (:class:`PredictionMLP`).

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    capturable: ClassVar[bool] = True
    predicts = "node"
    reads_sparse: ClassVar[bool] = True
    accepts_graph_token: ClassVar[bool] = False

    def __init__(
        self, dim_in: FromContext[int], out_dim: FromContext[int], *, layers_post_mp: FromContext[int] = 1
    ) -> None:
        super().__init__()
        self.mlp = PredictionMLP(dim_in, out_dim, layers_post_mp)

    @property
    def entry(self) -> InputLinear:
        """First map of the MLP."""
        return next(iter(self.mlp.lin))

    def forward(self, h: Readable, batch: GraphBatch) -> Tensor:
        """(N, out_dim) predictions of the nodes."""
        return self.mlp(h)
