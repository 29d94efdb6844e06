"""One short sequence of words per graph, for the method names of ogbg-code2."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.heads.contract import Head
from graphbench.heads.pooling import PoolsNodes, pooling_function
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("ogb_code_graph")
class OGBCodeGraphHead(Head, PoolsNodes):
    """Linear map of one pooled row per graph for every position of a sequence (ogbg-code2).

    y_gp = W_p pool over the nodes of g (h_i) + b_p, one linear map per position p of the sequence.

    ``gnn.layers_post_mp`` is not read, as in GraphGPS.

    Args:
        dim_in: width of the hidden state.
        out_dim: size V of the vocabulary, the unknown word and the end of the sequence included.
        pooling: ``add``, ``mean`` or ``max``.
        positions: words predicted per graph.

    Shape:
        h (N, dim_in) -> (G, positions, out_dim)
    """

    capturable: ClassVar[bool] = True
    predicts = "graph"

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        pooling: FromContext[str] = "mean",
        positions: int = 5,
    ) -> None:
        super().__init__()
        check_at_least(1, positions=positions)
        self.pool = pooling_function(pooling)
        self.lin = nn.ModuleList(nn.Linear(dim_in, out_dim) for _ in range(positions))

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(G, positions, out_dim) logits."""
        pooled = self.pooled(h, batch)
        return torch.stack([position(pooled) for position in self.lin], dim=1)
