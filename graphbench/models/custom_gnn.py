"""A stack of message passing layers, each with its own norm, activation and residual: GraphGPS's ``custom_gnn``."""

from __future__ import annotations

from typing import ClassVar

from graphbench.models.stacked import GPSModel
from graphbench.registry import register


@register("custom_gnn")
class CustomGNN(GPSModel):
    """:class:`~graphbench.models.stacked.GPSModel` whose blocks are ``gnn.layers_mp`` layers ``gnn.layer_type``."""

    layers_from: ClassVar[str] = "gnn"
