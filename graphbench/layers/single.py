"""One sublayer with residual and norm, without feed-forward network: the block of Exphormer's SingleModel."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.layers.contract import Attention, Block, LocalLayer
from graphbench.layers.gps import SubLayer
from graphbench.layers.norm import make_norm
from graphbench.structures import GraphBatch


class SingleBlock(Block):
    """``h' = relu(norm(h + drop(layer(h, e))))``: one sublayer, no feed-forward network.

    Args:
        dim: channels of nodes.
        layer: a local layer or an attention.
        edges: name of the edge set that it reads in place of the edges, None for the edges themselves.
        dropout: probability of dropping an entry of what the layer returns.
        norm: see :func:`~graphbench.layers.norm.make_norm`.

    Shape:
        h (N, dim), e (E, dim_edge) or None -> the same, and the batch for the next block.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: int,
        layer: LocalLayer | Attention,
        *,
        edges: str | None = None,
        dropout: float = 0.0,
        norm: str = "batch",
    ) -> None:
        super().__init__()
        self.branch = SubLayer(layer, make_norm(norm, dim), dropout=dropout, edges=edges)

    @property
    def sublayers(self) -> list[LocalLayer | Attention | None]:
        """The layer, as a list of one."""
        return [self.branch.part]

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """Node states (N, dim), edge states, and the batch for the next block."""
        h, e, batch = self.branch(h, e, batch)
        return h.relu(), e, batch
