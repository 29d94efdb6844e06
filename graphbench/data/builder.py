"""What a data set family is: one file in ``data/datasets``, one class, three members.

    @register("PyG-Planetoid")                    # dataset.format
    class Planetoid:
        def __init__(self, name: str, *, normalize_features: bool = False): ...
                                                  # dataset.name; own arguments are keys under dataset.PyG-Planetoid.*
        @property
        def card(self) -> DatasetCard | None: ... # declared facts, no data needed; None when only the data can tell
        def load(self, roots: Roots) -> LoadedDataset: ...

``card`` and ``__init__`` touch no disk and no network. ``load`` reads raw files through ``roots`` (look-up order,
download), checks them against the card, and adds the published splits that came with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from graphbench.data.card import DatasetCard
from graphbench.data.files.roots import Roots
from graphbench.data.loading.loader import num_examples
from graphbench.data.splits import Published
from graphbench.data.store import GraphStore
from graphbench.errors import unknown


@dataclass(frozen=True)
class LoadedDataset:
    """A data set at hand.

    Attributes:
        store: the graphs.
        card: the declared card, or the measured one where nothing was declared.
        published: splits that came with the data, by split mode (``standard``, ``geom-gcn``, ``folds``); each entry
            is chosen by ``dataset.split_index``, or is a recipe that draws a split from the seed.
    """

    store: GraphStore
    card: DatasetCard
    published: Mapping[str, Published] = field(default_factory=dict)

    @property
    def num_examples(self) -> int:
        """What a split divides: graphs, or the nodes or pairs that have targets when transductive."""
        return num_examples(self.store, self.card.transductive)


@runtime_checkable
class DatasetBuilder(Protocol):
    """The interface of a class in ``data/datasets``."""

    @property
    def card(self) -> DatasetCard | None:
        """Declared facts, without touching data; None when only the data can tell."""
        ...

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads, checks and returns the data."""
        ...


def known_name(family: str, name: str, names: Iterable[str]) -> str:
    """``name``, if the family has it.

    Raises:
        UserError: no such name; lists the valid ones and the nearest.
    """
    allowed = list(names)
    if name not in allowed:
        raise unknown(f"{family} data set (dataset.name)", name, allowed)
    return name
