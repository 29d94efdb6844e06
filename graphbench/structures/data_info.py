"""The facts about a data set that a model is built from, measured or declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TASKS = ("graph", "node", "edge", "link_pred")
TASK_TYPES = (
    "regression",
    "classification",
    "classification_binary",
    "classification_multi",
    "classification_multilabel",
    "subtoken_prediction",
)


@dataclass(frozen=True)
class DataInfo:
    """Sizes a model needs. Comes from a data set card (no data at hand) or from the loaded data; never from a YAML.

    Attributes:
        name: the data set, as printed in tables.
        task: what is predicted: ``graph``, ``node``, ``edge`` or ``link_pred``.
        task_type: one of :data:`TASK_TYPES`.
        node_in: columns of ``x`` (0: the graphs have no node features).
        edge_in: columns of ``edge_attr`` (0: none).
        out_dim: width of the prediction (1 for binary classification, classes otherwise).
        metric: name of the metric that selects the best epoch.
        maximize: True when larger values of ``metric`` are better.
        vocabularies: number of categories per column, by kind: ``{"node": (28,), "edge": (4,)}``.
        max_nodes: nodes of the largest training graph, or None when unknown.
        degree_histogram: in-degree counts over the training graphs, or None when unknown.
    """

    name: str
    task: str
    task_type: str
    node_in: int
    edge_in: int
    out_dim: int
    metric: str
    maximize: bool
    vocabularies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    max_nodes: int | None = None
    degree_histogram: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuses names outside the two vocabularies."""
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {TASKS}, received {self.task!r}")
        if self.task_type not in TASK_TYPES:
            raise ValueError(f"task_type must be one of {TASK_TYPES}, received {self.task_type!r}")
