"""BigBird as a model of its own: sparse attention over the order of the nodes, no edges."""

from __future__ import annotations

from typing import ClassVar

from graphbench.models.stacked import GPSModel
from graphbench.registry import register


@register("BigBird")
class BigBirdModel(GPSModel):
    """GraphGPS's ``BigBird``: :class:`~graphbench.layers.blocks.bigbird.BigBirdLayer`, ``gt.layers`` of them."""

    layer: ClassVar[str | None] = "BigBirdLayer"
