"""``dataset.format: PyG``, GraphGym's short names for data sets that have a family of their own here."""

from __future__ import annotations

from typing import Any

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.datasets.planetoid import Planetoid
from graphbench.data.datasets.shchur import Amazon, Coauthor
from graphbench.data.datasets.tu import TUDataset
from graphbench.data.files.roots import Roots
from graphbench.errors import unknown
from graphbench.registry import register

_NAMES: dict[str, tuple[Any, str]] = {
    **{name: (Planetoid, name) for name in ("Cora", "CiteSeer", "PubMed")},
    "CoauthorCS": (Coauthor, "cs"),
    "CoauthorPhysics": (Coauthor, "physics"),
    "AmazonComputers": (Amazon, "computers"),
    "AmazonPhoto": (Amazon, "photo"),
    "TU_IMDB": (TUDataset, "IMDB-MULTI"),
}
_TU = "TU_"


@register("PyG")
class PyG:
    """GraphGym's names.

    Args:
        name: ``Cora``, ``CiteSeer``, ``PubMed``, ``CoauthorCS``, ``CoauthorPhysics``, ``AmazonComputers``,
            ``AmazonPhoto``, or ``TU_`` and a name of the TU collection.
    """

    def __init__(self, name: str) -> None:
        if name in _NAMES:
            family, own = _NAMES[name]
        elif name.startswith(_TU) and len(name) > len(_TU):
            family, own = TUDataset, name.removeprefix(_TU)
        else:
            raise unknown("PyG data set (dataset.name)", name, [*_NAMES, "TU_<name in the TU collection>"])
        self.family: DatasetBuilder = family(own)

    @property
    def card(self) -> DatasetCard | None:
        """Declared facts of the family the name stands for."""
        return self.family.card

    def load(self, roots: Roots) -> LoadedDataset:
        """Loads it.

        Raises:
            UserError: as the family.
        """
        return self.family.load(roots)
