"""The layer of the BigBird model (https://arxiv.org/abs/2007.14062)."""

from __future__ import annotations

from torch import Tensor

from graphbench.layers.attention.bigbird import BigBirdCore
from graphbench.layers.contract import Block
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("BigBirdLayer", group="gt.bigbird")
class BigBirdLayer(BigBirdCore, Block):
    """BigBird's complete layer, around :class:`~graphbench.layers.attention.bigbird.BigBirdCore`.

    Shape:
        h (N, dim), e -> h' (N, dim), e, batch; edge states are not read.
    """

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        return self.attend(h, batch), e, batch
