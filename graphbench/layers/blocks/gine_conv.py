"""GINE as a complete layer (https://arxiv.org/abs/1905.12265)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.layers.activation import activation
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.local.gin import GINE
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("gineconv")
class GINEBlock(Block):
    """GINE with activation, dropout and a residual.

    ``h' = h + drop(act(GINE(h, e)))``.

    Args:
        dim: channels of nodes.
        dim_edge: channels of the edge states; another number than ``dim`` adds a linear map.
        dropout: probability of dropping an entry.
        act: activation inside and after the MLP.
        residual: add h.
        dropout_inside: drop after each map of the MLP, and leave out the activation after it: the layer of the
            re-tuned baselines of https://arxiv.org/abs/2309.00367.

    Shape:
        h (N, dim), e (E, dim_edge) -> h' (N, dim), e, batch.

    Differences from the paper: no norm, as in GraphGPS.
    """

    capturable: ClassVar[bool] = True
    needs_edges: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        *,
        dim_edge: FromContext[int],
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        residual: FromContext[bool] = False,
        dropout_inside: FromContext[bool] = False,
    ) -> None:
        super().__init__()
        self.conv = GINE(dim, dim, dim_edge=dim_edge, act=act)
        if dropout_inside:
            self.conv.mlp.insert(2, Dropout(dropout))
        self.act = nn.Identity() if dropout_inside else activation(act)
        self.dropout = Dropout(dropout)
        self.residual = residual

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        new, e = self.conv(h, e, batch)
        new = self.dropout(self.act(new))
        if self.residual:
            new = h + new
        return new, e, batch
