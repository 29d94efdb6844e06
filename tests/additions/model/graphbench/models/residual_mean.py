"""Means of neighbours with residual connections: a whole model of its own, as most competitors are."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.layers.module_list import Modules
from graphbench.models.contract import Frame, Model
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense


@register("ResidualMean")
class ResidualMean(Model):
    """A stack of convolutions between encoder and head.

    Equation::

        h'_i = h_i + relu(W_1 h_i + W_2 mean_(j -> i) h_j)

    Args:
        frame: encoder and head.
        layers: number of convolutions (``gt.layers``).
        bias: whether the maps have one.

    Shape:
        (G, out_dim), (N, out_dim) or (P, out_dim), as the head says
    """

    def __init__(self, frame: Frame, layers: FromContext[int], *, bias: bool = True) -> None:
        super().__init__()
        self.encoder = frame.encoder
        self.lin_in = nn.Linear(frame.dim_encoded, frame.dim)
        self.own: Modules[nn.Linear] = Modules(nn.Linear(frame.dim, frame.dim, bias=bias) for _ in range(layers))
        self.neighbors: Modules[nn.Linear] = Modules(nn.Linear(frame.dim, frame.dim, bias=False) for _ in range(layers))
        self.head = frame.head(frame.dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Predictions."""
        h, batch = self.encoder(batch)
        h = self.lin_in(as_dense(h))
        for own, neighbors in zip(self.own, self.neighbors, strict=True):
            mean = propagate(batch.adjacency(norm="row"), h)
            h = h + (own(h) + neighbors(mean)).relu()
        prediction: Tensor = self.head(h, batch)
        return prediction
