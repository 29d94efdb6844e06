"""GatedGCN as a complete layer (https://arxiv.org/abs/1711.07553)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.layers.contract import Block
from graphbench.layers.local.gated_gcn import GatedGCNCore
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("gatedgcnconv")
class GatedGCNBlock(GatedGCNCore, Block):
    """GatedGCN as a complete block, with norm, activation, dropout and residual.

    Equation: :class:`~graphbench.layers.local.gated_gcn.GatedGCNCore`.

    Args:
        dim: channels of nodes.
        dim_edge: channels of the edge states that come in; ``dim`` go out.
        dropout: probability of dropping an entry of the new node and edge states.
        act: activation.
        residual: add the old states.
        edge_residual: add the old edge states; None: as ``residual``.

    Shape:
        h (N, dim), e (E, dim_edge) -> h' (N, dim), e' (E, dim), batch.

    Differences from the paper: see GatedGCNCore.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        *,
        dim_edge: FromContext[int],
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        residual: FromContext[bool] = False,
        edge_residual: FromContext[bool | None] = None,
    ) -> None:
        super().__init__(
            dim, dim, dim_edge=dim_edge, dropout=dropout, act=act, residual=residual, edge_residual=edge_residual
        )

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim) and edge states (E, dim); the batch as it came."""
        h_new, e_new = self.convolve(h, e, batch)
        return h_new, e_new, batch
