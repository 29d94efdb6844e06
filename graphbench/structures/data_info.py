"""The facts about a data set that a model is built from, measured or declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from graphbench.vocabulary import TASK_TYPES, TASKS, TaskLevel, TaskType

FILE = "data_info.json"
"""File that a run notes it in, for whoever applies its model without the data."""


class Measured(Sequence[int]):
    """Numbers that are measured when somebody first reads them, and then kept.

    Args:
        measure: function that gives the numbers; called once at most.
    """

    def __init__(self, measure: Callable[[], Sequence[int]]) -> None:
        self._measure = measure

    @property
    def is_measured(self) -> bool:
        """Whether somebody has read them."""
        return "_values" in vars(self)

    @cached_property
    def _values(self) -> tuple[int, ...]:
        with torch.device("cpu"):  # a model is outlined on the meta device
            return tuple(self._measure())

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __eq__(self, other: object) -> bool:
        return self._values == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


@dataclass(frozen=True)
class DataInfo:
    """Sizes a model needs. Comes from a data set card (no data at hand) or from the loaded data; never from a YAML.

    Attributes:
        name: the data set, as printed in tables.
        task: kind of task: ``graph``, ``node``, ``edge`` or ``link_pred``.
        task_type: one of :data:`TASK_TYPES`.
        node_in: columns of ``x`` (0: the graphs have no node features).
        edge_in: columns of ``edge_attr`` (0: none).
        out_dim: width of the prediction (1 for binary classification, classes otherwise).
        metric: name of the metric that selects the best epoch.
        maximize: True when larger values of ``metric`` are better.
        vocabularies: number of categories per column, by kind: ``{"node": (28,), "edge": (4,)}``.
        max_nodes: nodes of the largest training graph, or None when unknown.
        largest_graph: nodes of the largest graph of all, for the shapes of parameters only; None when unknown.
        degree_histogram: in-degree counts over the training graphs, or None when unknown. Counting reads every edge,
            so it is done only where a layer asks (:class:`Measured`).
    """

    name: str
    task: TaskLevel
    task_type: TaskType
    node_in: int
    edge_in: int
    out_dim: int
    metric: str
    maximize: bool
    vocabularies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    max_nodes: int | None = None
    largest_graph: int | None = None
    degree_histogram: Sequence[int] | None = field(default=None, repr=False)

    def plain(self) -> dict[str, Any]:
        """Values as JSON takes them; degrees only if somebody has read them, because counting takes a while."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["vocabularies"] = {level: list(sizes) for level, sizes in self.vocabularies.items()}
        degrees = self.degree_histogram
        counted = degrees is not None and (not isinstance(degrees, Measured) or degrees.is_measured)
        return values | {"degree_histogram": list(degrees) if degrees is not None and counted else None}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> DataInfo:
        """Inverse of :meth:`plain`."""
        sizes = {level: tuple(counts) for level, counts in plain["vocabularies"].items()}
        return cls(**{**plain, "vocabularies": sizes})

    def __post_init__(self) -> None:
        """Refuses names outside the two vocabularies."""
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {TASKS}, received {self.task!r}")
        if self.task_type not in TASK_TYPES:
            raise ValueError(f"task_type must be one of {', '.join(TASK_TYPES)}; received {self.task_type!r}")
