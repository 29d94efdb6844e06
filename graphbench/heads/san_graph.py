"""One prediction per graph through a network that narrows (the head of SAN, and of GraphGPS on ZINC and PCQM4Mv2)."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from graphbench.heads.pooling import pooling_function
from graphbench.layers.activation import activation
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("san_graph")
class SANGraphHead(nn.Module):
    """y_g = W_3 act( W_2 act( W_1 pool over the nodes of g (h_i) ) ), widths d, d/2, d/4, out.

    Args:
        dim_in: width d of the hidden state.
        out_dim: width of the prediction.
        pooling: ``add``, ``mean`` or ``max``.
        act: activation (``gnn.act``).

    Shape:
        h (N, dim_in) -> (G, out_dim); an empty graph is predicted from a row of zeros.
    """

    def __init__(self, dim_in: int, out_dim: int, *, pooling: str = "add", act: str = "relu"):
        super().__init__()
        self.pool = pooling_function(pooling)
        self.act = activation(act)
        widths = (dim_in, dim_in // 2, dim_in // 4, out_dim)
        self.lin = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Predicts every graph."""
        h = self.pool(h, batch.ragged)
        for narrowing in self.lin[:-1]:
            h = self.act(narrowing(h))
        return self.lin[-1](h)
