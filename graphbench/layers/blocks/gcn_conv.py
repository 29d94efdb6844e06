"""GCN as a complete layer (https://arxiv.org/abs/1609.02907)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.layers.activation import activation
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.local.gcn import GCN
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("gcnconv")
class GCNBlock(Block):
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

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        residual: FromContext[bool] = False,
    ) -> None:
        super().__init__()
        self.conv = GCN(dim, dim)
        self.act = activation(act)
        self.dropout = Dropout(dropout)
        self.residual = residual

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        new, e = self.conv(h, e, batch)
        new = self.dropout(self.act(new))
        if self.residual:
            new = h + new
        return new, e, batch
