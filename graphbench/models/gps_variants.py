"""GraphGPS's and Exphormer's models with the shape of :class:`GPSModel`; they differ in where their blocks come from.

==================  =============================================================  ==================================
``model.type``      blocks                                                         paper
==================  =============================================================  ==================================
``custom_gnn``      ``gnn.layers_mp`` layers ``gnn.layer_type``                    https://arxiv.org/abs/2205.12454
``SANTransformer``  ``SANLayer`` or ``SAN2Layer`` (``gt.layer_type``)              https://arxiv.org/abs/2106.03893
``Graphormer``      ``GraphormerLayer``, described by ``graphormer.*``             https://arxiv.org/abs/2106.05234
``GritTransformer``  ``GritTransformer`` (``gt.layer_type``)                       https://arxiv.org/abs/2305.17589
``BigBird``         ``BigBirdLayer``                                               https://arxiv.org/abs/2007.14062
``Performer``       ``PerformerLayer``                                             https://arxiv.org/abs/2009.14794
``MultiModel``      any number of parallel sublayers (``gt.layer_type: a+b+c``)    https://arxiv.org/abs/2303.06147
``SingleModel``     one sublayer, then ReLU, without feed-forward network          https://arxiv.org/abs/2303.06147
==================  =============================================================  ==================================
"""

from __future__ import annotations

from typing import ClassVar, Literal

from graphbench.models.stacked import GPSModel
from graphbench.registry import register


@register("custom_gnn")
class CustomGNN(GPSModel):
    """:class:`~graphbench.models.stacked.GPSModel` whose blocks are ``gnn.layers_mp`` layers ``gnn.layer_type``."""

    layers_from: ClassVar[Literal["gt", "gnn", "graphormer"]] = "gnn"


@register("SANTransformer")
class SANTransformer(GPSModel):
    """:class:`~graphbench.models.stacked.GPSModel` of ``SANLayer`` or ``SAN2Layer`` (``gt.layer_type``).

    All layers share the feature of pairs without an edge, one row that counts once among the parameters.
    """


@register("Graphormer")
class Graphormer(GPSModel):
    """:class:`~graphbench.models.stacked.GPSModel` of Graphormer layers, described by the keys ``graphormer.*``.

    Degrees, distances and edges along paths enter through the encoder ``GraphormerBias``.
    """

    layers_from: ClassVar[Literal["gt", "gnn", "graphormer"]] = "graphormer"
    layer: ClassVar[str | None] = "GraphormerLayer"


@register("GritTransformer")
class GritTransformer(GPSModel):
    """:class:`~graphbench.models.stacked.GPSModel` of GRIT's layers, with the encoder ``RRWP``."""


@register("BigBird")
class BigBirdModel(GPSModel):
    """GraphGPS's ``BigBird``: :class:`~graphbench.layers.blocks.bigbird.BigBirdLayer`, ``gt.layers`` of them."""

    layer: ClassVar[str | None] = "BigBirdLayer"


@register("Performer")
class PerformerModel(GPSModel):
    """GraphGPS's ``Performer``: :class:`~graphbench.layers.blocks.performer.PerformerLayer`, ``gt.layers`` of them."""

    layer: ClassVar[str | None] = "PerformerLayer"


@register("MultiModel")
class MultiModel(GPSModel):
    """Any number of parallel sublayers in every block (``gt.layer_type: a+b+c``), then a feed-forward network.

    The pairs of Exphormer's attention come from ``prepare``, an
    :class:`~graphbench.encoders.expander.ExpanderEdges`.
    """


@register("SingleModel")
class SingleModel(GPSModel):
    """One layer per block, followed by a ReLU: :class:`~graphbench.layers.single.SingleBlock`."""

    feed_forward: ClassVar[bool] = False
