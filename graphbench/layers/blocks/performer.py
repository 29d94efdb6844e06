"""The layer of the Performer model (https://arxiv.org/abs/2009.14794)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.contract import CountsOnHost
from graphbench.errors import check_multiple
from graphbench.layers.attention.performer import Performer
from graphbench.layers.contract import Block
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("PerformerLayer")
class PerformerLayer(CountsOnHost, Block):
    """Pre-norm transformer layer around FAVOR+ attention, without dropout.

    Equations::

        x  = h + attention(norm_attention(h))
        h' = x + W_2 gelu(W_1 norm_ffn(x))

    with layer norms per node, heads of width dim / heads with biases, and 4 dim channels inside.

    Args:
        dim: channels, divisible by ``heads``.
        heads: number of heads.
        feature_redraw_interval: training batches between two draws of the random directions; 0: they stay.

    Shape:
        h (N, dim), e -> h' (N, dim), e, batch; edge states are not read.

    Differences from the released code: those of :class:`~graphbench.layers.attention.performer.Performer`.
    """

    capturable: ClassVar[bool] = True
    counters: ClassVar[tuple[str, ...]] = ("calls",)
    compile_obstacle: ClassVar[str | None] = "it counts its batches, to draw new directions after some of them"

    def __init__(self, dim: FromContext[int], heads: FromContext[int], *, feature_redraw_interval: int = 1000) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        self.norm_attention = LayerNorm(dim)
        self.attention = Performer(dim, heads, dim_head=dim // heads, qkv_bias=True)
        self.norm_ffn = LayerNorm(dim)
        self.feed_forward = FeedForward(dim, act="gelu", expansion=4)
        self.interval = feature_redraw_interval
        self.calls = 0

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        if self.training and self.interval:
            if self.calls >= self.interval:
                self.attention.redraw()
                self.calls = 0
            else:
                self.calls += 1
        x = h + self.attention(self.norm_attention(h), e, batch)
        return x + self.feed_forward(self.norm_ffn(x)), e, batch

    def capture_obstacle(self, one_batch: bool = False) -> str | None:
        """Batches that are counted on the host: a replay would never draw new directions."""
        return "PerformerLayer draws new directions after some batches" if self.interval else super().capture_obstacle()
