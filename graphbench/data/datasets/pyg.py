"""``dataset.format: PyG``: GraphGym's short names for data sets that have a format of their own here."""

from __future__ import annotations

from graphbench.data.builder import DatasetCollection
from graphbench.registry import FromContext, register


@register("PyG")
class PyG(DatasetCollection):
    """Data sets of PyTorch Geometric under GraphGym's names.

    Args:
        name: ``Cora``, ``CiteSeer``, ``PubMed``, ``CoauthorCS``, ``CoauthorPhysics``, ``AmazonComputers``,
            ``AmazonPhoto``, or ``TU_`` and a name of the TU collection.
    """

    def __init__(self, name: FromContext[str]) -> None:
        super().__init__(name)
