"""Data set builders: the contract of a class in ``data/datasets``.

    @register("PyG-ZINC")                           # dataset.format
    class ZINC(DatasetBuilder):
        names = ("subset", "full")                  # dataset.name

        def __init__(self, name: FromContext[str], *, mine: int = 1) -> None:
            super().__init__(name)                  # checks it, sets self.name; others are keys of dataset.PyG-ZINC
            self.mine = mine
        @property
        def card(self) -> DatasetCard: ...          # declared facts, no data needed
        def load(self, roots: Roots) -> LoadedDataset: ...

``__init__`` and ``card`` touch no disk and no network. ``load`` reads raw files through ``roots`` (look-up order,
download), compares them with the card, and adds the published splits that came with them.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from graphbench import registry
from graphbench.data.card import DatasetCard
from graphbench.data.files.raw_files import unreadable
from graphbench.data.files.roots import Roots
from graphbench.data.loading.loader import num_examples
from graphbench.data.split_protocols import default_sizes
from graphbench.data.splits import Published
from graphbench.data.store import GraphStore
from graphbench.errors import UserError, unknown
from graphbench.registry import FromContext


@dataclass(frozen=True)
class LoadedDataset:
    """A data set in memory.

    Attributes:
        store: the graphs.
        card: the declared card, or the measured one where nothing was declared.
        published: splits that came with the data, by split mode (``standard``, ``geom-gcn``, ``folds``); each entry
            is chosen by ``dataset.split_index``, or is a recipe that draws a split from the seed.
        code: file or module of the user's function that made the graphs -> its source.
    """

    store: GraphStore
    card: DatasetCard
    published: Mapping[str, Published] = field(default_factory=dict)
    code: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def num_examples(self) -> int:
        """Number of examples that a split divides: graphs, or nodes or pairs that have targets when transductive."""
        return num_examples(self.store, self.card.transductive)

    def rows_of(self, part: Tensor) -> dict[str, Tensor]:
        """Numbers in the data set of what a row of predictions on some examples is of: ``graph``, ``node``, ``pair``.

        Args:
            part: numbers of examples, as a split has them.

        Returns:
            Columns (R,): ``graph`` of graphs; ``graph`` and ``node``, its number inside it, of nodes; ``pair`` of the
            pairs of one graph. None of pairs inside many graphs, among which negative ones may be drawn anew.
        """
        if self.store.y_level == "pair":
            return {"pair": part} if self.card.transductive else {}
        if self.store.y_level == "graph":
            return {"graph": part}
        if not self.card.transductive:
            graph, node = self.store.nodes_of(part)
            return {"graph": graph, "node": node}
        graph, node = self.store.nodes_of(range(self.store.num_graphs))
        return {"graph": graph[part], "node": node[part]}


class DatasetBuilder(ABC):
    """Base class of the data sets that ``dataset.format`` can name.

    Args:
        name: ``dataset.name``.

    Attributes:
        name: ``dataset.name``, one of ``names``.
        registered_name: ``dataset.format``, set by ``@register``; until then the name of the class.
        names: values of ``dataset.name``; empty where any is allowed.
        offered_by: collections (:class:`DatasetCollection`) that offer these data sets, too: ``dataset.format`` ->
            name there -> name here. ``"TU_*": "*"`` means all names that begin with ``TU_``, without these letters.
        drawn_sizes: default of ``dataset.split`` where ``standard`` is drawn at random; None where it is not.
        published_files: False for data of the user, or drawn here, of which nobody has published what they are.
    """

    registered_name: ClassVar[str]
    names: ClassVar[tuple[str, ...]] = ()
    offered_by: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    drawn_sizes: ClassVar[tuple[float, ...] | None] = None
    published_files: ClassVar[bool] = True

    def __init__(self, name: FromContext[str] = "none") -> None:
        self.name = self.check_name(name)

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Makes the class known to the collections that it names."""
        super().__init_subclass__(**arguments)
        cls.registered_name = cls.__name__
        for collection, names in vars(cls).get("offered_by", {}).items():
            offered = _offered.setdefault(collection, {})
            offered.update({name: (cls, own_name) for name, own_name in names.items()})

    @classmethod
    def check_name(cls, name: str) -> str:
        """``name``, if it is one of ``names``, or these are empty.

        Raises:
            UserError: no such name; lists the valid ones and the nearest.
        """
        if cls.names and name not in cls.names:
            raise unknown(f"{cls.registered_name} data set (dataset.name)", name, cls.names)
        return name

    @classmethod
    def default_sizes(cls, name: str, mode: str) -> tuple[float, ...]:
        """``dataset.split`` of a data set where the user gives none."""
        return cls.drawn_sizes if cls.drawn_sizes and mode == "standard" else default_sizes(mode)

    @property
    @abstractmethod
    def card(self) -> DatasetCard | None:
        """Declared facts, without touching data; None when only the data can tell."""

    @abstractmethod
    def load(self, roots: Roots) -> LoadedDataset:
        """Reads, checks and returns the data.

        Raises:
            UserError: files are missing, or are not what was published.
        """


def read(builder: DatasetBuilder, roots: Roots) -> LoadedDataset:
    """Data set that a builder loads; damage that its reader has not noticed ends in one message, too.

    Raises:
        UserError: files are missing, or are not what was published.
    """
    try:
        return builder.load(roots)
    except (ValueError, LookupError, ArithmeticError) as error:
        files = () if builder.card is None else builder.card.files
        if not files:
            raise  # generated, or of the user, whose reader says what is wrong
        root = roots.find(*files) or roots.directory
        advice = "If they are whole, this is a defect of their reader."
        raise unreadable([root / file for file in files], error, advice) from error


_offered: dict[str, dict[str, tuple[type[DatasetBuilder], str]]] = {}
"""Collection -> name there -> builder and its own name."""


@functools.cache
def _import_builders() -> None:
    datasets = importlib.import_module("graphbench.data.datasets")
    for module in pkgutil.iter_modules(datasets.__path__, f"{datasets.__name__}."):
        importlib.import_module(module.name)


class DatasetCollection(DatasetBuilder):
    """One ``dataset.format`` for data sets that have builders of their own, each in its own file.

    A builder joins by naming the collection in ``offered_by``. A subclass lists in its constructor whatever arguments
    its members have; a member gets those that it knows.

    Args:
        name: ``dataset.name``.
        options: arguments of any of the members.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name)
        builder, own_name = self._member(name)
        known = registry.parameters(builder)
        construct: Callable[..., DatasetBuilder] = builder
        self.builder = construct(own_name, **{key: value for key, value in options.items() if key in known})

    @classmethod
    def members(cls) -> dict[str, tuple[type[DatasetBuilder], str]]:
        """Names here -> builder and its own name."""
        _import_builders()
        offered = _offered.get(cls.registered_name, {})
        return dict(sorted(offered.items(), key=lambda item: item[1][0].__name__))

    @classmethod
    def _member(cls, name: str) -> tuple[type[DatasetBuilder], str]:
        members = cls.members()
        if name in members:
            return members[name]
        for pattern, (builder, _) in members.items():
            prefix = pattern.removesuffix("*")
            if prefix != pattern and name.startswith(prefix) and name != prefix:
                return builder, name.removeprefix(prefix)
        raise unknown(f"{cls.registered_name} data set (dataset.name)", name, members)

    @classmethod
    def default_sizes(cls, name: str, mode: str) -> tuple[float, ...]:
        """Default sizes of the member; an unknown name is refused where the member is built."""
        if mode != "standard":
            return default_sizes(mode)
        try:
            member, own_name = cls._member(name)
        except UserError:
            return default_sizes(mode)
        return member.default_sizes(own_name, mode)

    @property
    def card(self) -> DatasetCard | None:
        """Declared facts of the member."""
        return self.builder.card

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the member."""
        return self.builder.load(roots)
