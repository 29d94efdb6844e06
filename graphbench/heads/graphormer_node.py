"""One prediction per node, from an activated and normalised map: Graphormer's head in SGFormer's node tables."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.heads.contract import Head
from graphbench.layers.norm import LayerNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("graphormer_node")
class GraphormerNodeHead(Head):
    """Masked-language-model head of Graphormer's code, per node.

    y_i = W_2 LayerNorm(gelu(W_1 h_i + b_1)) + b_2.

    Args:
        dim_in: width of the hidden state, kept inside.
        out_dim: width of the prediction.

    Shape:
        h (N, dim_in) -> (N, out_dim)

    Source: ``medium/graphormer.py`` of https://github.com/qitianwu/SGFormer.
    """

    capturable: ClassVar[bool] = True
    predicts = "node"
    accepts_graph_token: ClassVar[bool] = False

    def __init__(self, dim_in: FromContext[int], out_dim: FromContext[int]) -> None:
        super().__init__()
        self.hidden = nn.Linear(dim_in, dim_in)
        self.norm = LayerNorm(dim_in)
        self.lin = nn.Linear(dim_in, out_dim)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, out_dim) predictions of the nodes."""
        return self.lin(self.norm(nn.functional.gelu(self.hidden(h))))
