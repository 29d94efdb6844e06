"""The two models of Exphormer (https://arxiv.org/abs/2303.06147)."""

from __future__ import annotations

from typing import ClassVar

from graphbench.models.stacked import GPSModel
from graphbench.registry import register


@register("MultiModel")
class MultiModel(GPSModel):
    """Any number of layers side by side in every block (``gt.layer_type: a+b+c``), then a feed-forward part.

    The shape of GPSModel; what the attention of Exphormer works on is its ``prepare``, an
    :class:`~graphbench.encoders.expander.ExpanderEdges`.
    """


@register("SingleModel")
class SingleModel(GPSModel):
    """One layer per block, followed by a ReLU: :class:`~graphbench.layers.single.SingleBlock`.

    Attributes:
        feed_forward: False: blocks have no feed-forward part.
    """

    feed_forward: ClassVar[bool] = False
