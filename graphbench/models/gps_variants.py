"""GraphGPS's and Exphormer's models with the shape of :class:`GPSModel`; they differ in where blocks come from."""

from __future__ import annotations

from typing import ClassVar

from graphbench.models.stacked import GPSModel
from graphbench.registry import register


@register("custom_gnn")
class CustomGNN(GPSModel):
    """Message-passing network of ``gnn.layers_mp`` layers ``gnn.layer_type`` (https://arxiv.org/abs/2205.12454).

    A :class:`~graphbench.models.stacked.GPSModel`.
    """

    layers_from = "gnn"


@register("SANTransformer")
class SANTransformer(GPSModel):
    """SAN, https://arxiv.org/abs/2106.03893: blocks ``SANLayer`` or ``SAN2Layer`` (``gt.layer_type``).

    All layers share the feature of pairs without an edge, one row that counts once among the parameters.
    """


@register("Graphormer")
class Graphormer(GPSModel):
    """Graphormer, https://arxiv.org/abs/2106.05234: layers described by the keys ``graphormer.*``.

    Degrees, distances and edges along paths enter through the encoder ``GraphormerBias``.
    """

    layers_from = "graphormer"
    layer: ClassVar[str | None] = "GraphormerLayer"


@register("GritTransformer")
class GritTransformer(GPSModel):
    """GRIT, https://arxiv.org/abs/2305.17589: layers of ``gt.layer_type``, with the encoder ``RRWP``."""


@register("BigBird")
class BigBirdModel(GPSModel):
    """BigBird's layers alone, ``gt.layers`` of them (https://arxiv.org/abs/2007.14062)."""

    layer: ClassVar[str | None] = "BigBirdLayer"


@register("Performer")
class PerformerModel(GPSModel):
    """Performer's layers alone, ``gt.layers`` of them (https://arxiv.org/abs/2009.14794)."""

    layer: ClassVar[str | None] = "PerformerLayer"


@register("MultiModel")
class MultiModel(GPSModel):
    """Stack of blocks of parallel sublayers (``gt.layer_type: a+b+c``), each with a feed-forward network.

    Exphormer's model (https://arxiv.org/abs/2303.06147). The pairs of Exphormer's attention come from ``prepare``, an
    :class:`~graphbench.encoders.expander.ExpanderEdges`.
    """


@register("SingleModel")
class SingleModel(GPSModel):
    """Stack of single layers, each followed by a ReLU: :class:`~graphbench.layers.single.SingleBlock`.

    Exphormer's ablation without a feed-forward network (https://arxiv.org/abs/2303.06147).
    """

    feed_forward: ClassVar[bool] = False
