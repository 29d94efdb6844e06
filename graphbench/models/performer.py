"""Performer as a model of its own: attention in linear time, no edges."""

from __future__ import annotations

from typing import ClassVar

from graphbench.models.stacked import GPSModel
from graphbench.registry import register


@register("Performer")
class PerformerModel(GPSModel):
    """GraphGPS's ``Performer``: :class:`~graphbench.layers.blocks.performer.PerformerLayer`, ``gt.layers`` of them."""

    layer: ClassVar[str | None] = "PerformerLayer"
