"""SAN: attention to neighbours and, with weights of its own, to all other nodes.

Kreuzer et al., Rethinking Graph Transformers with Spectral Attention, https://arxiv.org/abs/2106.03893, as ported by
GraphGPS.
"""

from __future__ import annotations

from graphbench.models.stacked import GPSModel
from graphbench.registry import register


@register("SANTransformer")
class SANTransformer(GPSModel):
    """:class:`~graphbench.models.stacked.GPSModel` of ``SANLayer`` or ``SAN2Layer`` (``gt.layer_type``).

    All layers share the feature of pairs that are no edges, one row that counts once among the parameters.
    """
