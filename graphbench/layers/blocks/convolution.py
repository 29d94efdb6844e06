"""GCN (https://arxiv.org/abs/1609.02907) and GINE (https://arxiv.org/abs/1905.12265) as complete layers."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.layers.activation import activation
from graphbench.layers.contract import Block, LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.gin import GINE
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class ConvolutionBlock(Block):
    """Convolution with activation, dropout and a residual, ``h' = h + drop(act(conv(h, e)))``; a subclass names it.

    Args:
        conv: the convolution.
        act: module after it.
        dropout: probability of dropping an entry.
        residual: add h.

    Shape:
        h (N, dim), e -> h' (N, dim), e as the convolution returns it, batch.
    """

    capturable: ClassVar[bool] = True

    def __init__(self, conv: LocalLayer, act: nn.Module, dropout: float, residual: bool) -> None:
        super().__init__()
        self.conv = conv
        self.act = act
        self.dropout = Dropout(dropout)
        self.residual = residual

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        new, e = self.conv(h, e, batch)
        new = self.dropout(self.act(new))
        if self.residual:
            new = h + new
        return new, e, batch


@register("gcnconv")
class GCNBlock(ConvolutionBlock):
    """GCN with activation, dropout and a residual.

    ``h' = h + drop(act(GCN(h)))``.

    Args:
        dim: channels of nodes.
        dropout: probability of dropping an entry.
        act: activation.
        residual: add h.

    Shape:
        h (N, dim), e -> h' (N, dim), e, batch; edge states are not read.

    Differences from the paper: the residual, as in https://arxiv.org/abs/2309.00367.
    """

    def __init__(
        self,
        dim: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        residual: FromContext[bool] = False,
    ) -> None:
        super().__init__(GCN(dim, dim), activation(act), dropout, residual)


@register("gineconv")
class GINEBlock(ConvolutionBlock):
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
        conv = GINE(dim, dim, dim_edge=dim_edge, act=act)
        if dropout_inside:
            conv.mlp.insert(2, Dropout(dropout))
        super().__init__(conv, nn.Identity() if dropout_inside else activation(act), dropout, residual)
