"""Random-walk encoding of edges.

Toenshoff et al., Where Did the Gap Go? Reassessing the Long-Range Graph Benchmark, https://arxiv.org/abs/2309.00367
(in its code; no published configuration uses it).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.encoders.contract import ColumnEncoder
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.activation import activation
from graphbench.layers.norm import BatchNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("RWSEEdge")
class RWSEEdge(ColumnEncoder):
    """Random-walk structural encoding of edges.

    pe_ij = BatchNorm( W2 act( W1 BatchNorm(s_ij) ) ), s_ij = [P^t_ij for t in 0, *times].

    P^t_ij is the probability that a random walk from i is at j after t steps.

    Args:
        dim_pe: width of the encoding.
        times: numbers of steps, as given to the transform; the 0 is added.
        act: activation between the maps.

    Shape:
        (E, len(times) + 1) -> (E, dim_pe)

    Differences from the paper's code: it is concatenated with the edge features, as all encodings; there it is added to
    them, and the graph gets self loops and edges to its most visited node.
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "RandomWalkEdgeSE"
    level: ClassVar[Literal["node", "edge"]] = "edge"

    def __init__(self, dim_pe: int, times: list[int], *, act: FromContext[str] = "relu") -> None:
        super().__init__()
        check_at_least(1, dim_pe=dim_pe)
        if not times:
            raise ArgumentError("times", "RWSEEdge: times must name at least one number of steps, received none")
        self.columns = len(times) + 1
        self.norm_in = BatchNorm(self.columns)
        self.mlp = nn.Sequential(nn.Linear(self.columns, dim_pe), activation(act), nn.Linear(dim_pe, dim_pe))
        self.norm_out = BatchNorm(dim_pe)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(E, dim_pe) encodings of the edges."""
        landing = self.encoding(batch, "landing", self.columns)
        normed = self.norm_in(landing.to(self.norm_out.weight.dtype), batch, "edge")
        return self.norm_out(self.mlp(normed), batch, "edge")
