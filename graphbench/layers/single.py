"""One layer with its residual and norm, and nothing else: the block of Exphormer's SingleModel."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.layers.gps import Branch
from graphbench.layers.norm import make_norm
from graphbench.structures import GraphBatch


class SingleBlock(nn.Module):
    """``h' = relu(norm(h + drop(part(h, e))))``: a part of a :class:`~graphbench.layers.gps.GPSBlock` without the rest.

    Args:
        dim: channels of nodes.
        part: a local layer or an attention.
        edges: name of the edge set that it reads in place of the edges, None for the edges themselves.
        dropout: probability of dropping an entry of what the part returns.
        norm: see :func:`~graphbench.layers.norm.make_norm`.

    Shape:
        h (N, dim), e (E, dim_edge) or None -> the same, and the batch for the next block.
    """

    def __init__(
        self, dim: int, part: nn.Module, *, edges: str | None = None, dropout: float = 0.0, norm: str = "batch"
    ) -> None:
        super().__init__()
        self.branch = Branch(part, make_norm(norm, dim), dropout=dropout, edges=edges)

    @property
    def parts(self) -> list[nn.Module | None]:
        """The one layer."""
        return [self.branch.part]

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states, and the batch with what the part leaves for the next block."""
        h, e, batch = self.branch(h, e, batch)
        return h.relu(), e, batch
