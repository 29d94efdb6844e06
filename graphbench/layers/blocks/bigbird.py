"""The layer of the BigBird model (https://arxiv.org/abs/2007.14062)."""

from __future__ import annotations

from torch import Tensor

from graphbench.layers.attention.bigbird import BigBird
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("BigBirdLayer")
class BigBirdLayer(BigBird):
    """:class:`~graphbench.layers.attention.bigbird.BigBird`, which is a complete layer, as a layer of its own.

    Shape:
        h (N, dim), e -> h' (N, dim), e, batch; edge states are not read.
    """

    def forward(  # type: ignore[override]
        self, h: Tensor, e: Tensor | None, batch: GraphBatch
    ) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states."""
        return super().forward(h, e, batch), e, batch
