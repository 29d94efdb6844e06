"""One prediction per node."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.heads.mlp import PredictionMLP
from graphbench.layers.input_linear import Readable
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("node", "inductive_node")
class NodeHead(nn.Module):
    """y_i = MLP(h_i).

    Transductive (``node``, one graph, part of the rows count) and inductive (``inductive_node``, many graphs, all
    rows count) tasks predict alike; the training loop selects rows.

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        layers_post_mp: linear maps of the MLP (:class:`PredictionMLP`).

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    reads_sparse: bool = True

    def __init__(self, dim_in: int, out_dim: int, *, layers_post_mp: int = 1):
        super().__init__()
        self.mlp = PredictionMLP(dim_in, out_dim, layers_post_mp)

    def forward(self, h: Readable, batch: GraphBatch) -> Tensor:
        """Predicts every node."""
        return self.mlp(h)
