"""Base class of transforms: declarations, call signature, and where a store keeps the outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor

from graphbench.contract import has_abstract_methods
from graphbench.data.store import GraphStore

Level = Literal["node", "edge", "pair", "edge_set", "hops"]
"""Kind of the rows of an output."""

Input = Literal["edge_index", "x", "edge_attr"]
"""Field of a store that a transform may read."""


class Transform(ABC):
    """An encoding of the graphs of a data set, computed once and kept on disk.

    A subclass states ``version`` and ``outputs``, implements :meth:`__call__`, and keeps every constructor argument as
    an attribute of the same name (they are part of the address in the cache).

    Of an encoder's transform ``<Name>`` is the registered name of the *encoder*, which reads the outputs by
    ``self.encoding(batch, "<output>")``, so that two encoders may have one transform with other arguments. Of what a
    layer or model asks for (``required_transforms``) it is the name of the transform.

    ======== =============================================== =======================================
    level    outputs                                         where a store has them
    ======== =============================================== =======================================
    node     (N, ...)                                        ``store.pe["<Name>.<output>"]``
    edge     (E, ...)                                        ``store.edge_pe["<Name>.<output>"]``
    pair     ``distance`` (sum of n_g^2,) uint8              ``store.pairs``
             others (sum of n_g^2, ...)                      ``store.pair_pe["<Name>.<output>"]``
    edge_set ``index`` (2, M) numbered inside each graph,    ``store.edge_sets["<Name>"]``
             ``ptr`` (G+1,), optionally ``attr`` (M, ...)
    hops     ``row_ptr`` (N+1,), ``col`` (P,), ``hop`` (P,)  ``store.hops``
    ======== =============================================== =======================================

    Attributes:
        registered_name: name in the configuration, set by ``@register``; until then that of the class.
        version: raised whenever the same arguments give other numbers than before; an edited plug-in is told by itself.
        level: kind of the rows of an output, see the table; set in the constructor where it depends on arguments.
        outputs: every name that the result may have.
        reads: fields that the result depends on besides the number of nodes.
        missing_value: NaN or infinity, where it stands for what a graph does not have; any other is an error.
    """

    registered_name: ClassVar[str]
    version: ClassVar[int]
    level: Level = "node"
    outputs: ClassVar[tuple[str, ...]]
    reads: ClassVar[tuple[Input, ...]] = ("edge_index",)
    missing_value: ClassVar[float | None] = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses a class that can be built but leaves something undeclared."""
        super().__init_subclass__(**arguments)
        cls.registered_name = cls.__name__
        missing = [name for name in ("version", "outputs") if not hasattr(cls, name)]
        if missing and not has_abstract_methods(cls):
            raise TypeError(f"{cls.__qualname__}: a transform declares {' and '.join(missing)} (see {__name__})")

    @abstractmethod
    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Outputs by name, for all graphs of a store.

        Raises:
            ValueError: the graphs lack something that is read.
            UserError: the graphs are too large.
        """


class JointTransform(Transform):
    """A transform that shares a pass over the graphs with others, those whose ``together`` is the same function."""

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Outputs by name, for all graphs of a store."""
        return self.together(store, [self])[0]

    @staticmethod
    @abstractmethod
    def together(store: GraphStore, transforms: Sequence[Any]) -> list[dict[str, Tensor]]:
        """The outputs of each of some transforms, from one pass over the graphs."""
