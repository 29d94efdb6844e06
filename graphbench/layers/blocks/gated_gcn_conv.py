"""GatedGCN as a layer of its own (https://arxiv.org/abs/1711.07553)."""

from __future__ import annotations

from torch import Tensor

from graphbench.layers.local.gated_gcn import CustomGatedGCN
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("gatedgcnconv")
class GatedGCNBlock(CustomGatedGCN):
    """:class:`~graphbench.layers.local.gated_gcn.CustomGatedGCN`, norm, activation, dropout and residual included.

    Args:
        dim: channels of nodes.
        dim_edge: channels of the edge states that come in; ``dim`` go out.
        dropout: probability of dropping an entry of the new node and edge states.
        act: activation.
        residual: add the old states.
        edge_residual: the same for edge states alone; None: as ``residual``.

    Shape:
        h (N, dim), e (E, dim_edge) -> h' (N, dim), e' (E, dim), batch.

    Differences from the paper: see CustomGatedGCN.
    """

    def __init__(
        self,
        dim: int,
        *,
        dim_edge: int,
        dropout: float = 0.0,
        act: str = "relu",
        residual: bool = False,
        edge_residual: bool | None = None,
    ) -> None:
        super().__init__(
            dim, dim, dim_edge=dim_edge, dropout=dropout, act=act, residual=residual, edge_residual=edge_residual
        )

    def forward(  # type: ignore[override]
        self, h: Tensor, e: Tensor | None, batch: GraphBatch
    ) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states."""
        return *super().forward(h, e, batch), batch
