"""Graphormer as GraphGPS ports it.

Ying et al., Do Transformers Really Perform Badly for Graph Representation?, https://arxiv.org/abs/2106.05234.
"""

from __future__ import annotations

from typing import ClassVar

from graphbench.models.stacked import GPSModel
from graphbench.registry import register


@register("Graphormer")
class Graphormer(GPSModel):
    """:class:`~graphbench.models.stacked.GPSModel` of Graphormer layers, described by the keys ``graphormer.*``.

    Degrees, distances and edges along paths enter through the encoder ``GraphormerBias``.
    """

    layers_from: ClassVar[str] = "graphormer"
    layer: ClassVar[str | None] = "GraphormerLayer"
