"""Data set cards: declared facts from which a model can be built and counted without the data.

Metric, direction and split protocol belong to the card, not to a user's YAML: results under one data set name are
comparable because of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import torch

from graphbench.data.store import GraphStore, Indices
from graphbench.errors import UserError
from graphbench.structures import DataInfo
from graphbench.structures.data_info import Measured
from graphbench.vocabulary import TaskLevel, TaskType

STATISTICS = ("graphs", "nodes", "edges", "nodes_per_graph", "edges_per_graph")
"""Statistics of a card: counts are exact (edges directed), averages hold to the digits they were published with."""

_ROUNDING = 2e-3


@dataclass(frozen=True)
class DatasetCard:
    """The facts of one data set.

    Attributes:
        name: name of the data set, as printed in tables.
        task: ``graph``, ``node``, ``edge`` or ``link_pred``.
        task_type: see ``vocabulary.TASK_TYPES``.
        metric: name of the metric that selects the best epoch.
        maximize: True when larger values of ``metric`` are better.
        node_in: columns of the node features.
        edge_in: columns of the edge features, 0 for none.
        out_dim: width of the prediction (1 for two classes).
        transductive: True when the examples are nodes of graphs that are always seen whole.
        split_modes: protocols that the data set allows; ``cv-kfold-K`` means any K.
        split_counts: published splits by split mode, where it is known how many there are.
        vocabularies: categories per column, by level (``node``, ``edge``), where features are categories.
        statistics: published counts, keys from :data:`STATISTICS`.
        licence: licence as stated by the source.
        source: URL of the raw files.
        files: raw files, relative to the data root.
        split_files: files of further published splits by split mode, read where they are present.
        sha256: checksums of raw files, as far as known.
    """

    name: str
    task: TaskLevel
    task_type: TaskType
    metric: str
    maximize: bool
    node_in: int
    edge_in: int
    out_dim: int
    transductive: bool = False
    split_modes: tuple[str, ...] = ("standard",)
    split_counts: Mapping[str, int] = field(default_factory=dict)
    vocabularies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    statistics: Mapping[str, float] = field(default_factory=dict)
    licence: str = "none stated"
    source: str = ""
    files: tuple[str, ...] = ()
    split_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses a card that contradicts itself."""
        unknown = set(self.statistics) - set(STATISTICS)
        if unknown:
            raise ValueError(f"unknown statistics {sorted(unknown)}; allowed: {STATISTICS}")
        self.info()

    def info(self, store: GraphStore | None = None, graphs: Indices | None = None) -> DataInfo:
        """Facts about the data that a model is built from.

        Args:
            store: the loaded data, to measure the largest graph and the degrees; None without data.
            graphs: the training split (default: all), so that nothing is learned from test graphs; of one graph whose
                nodes are split everything is read.
        """
        if self.transductive:
            graphs = None
        return DataInfo(
            name=self.name,
            task=self.task,
            task_type=self.task_type,
            node_in=self.node_in,
            edge_in=self.edge_in,
            out_dim=self.out_dim,
            metric=self.metric,
            maximize=self.maximize,
            vocabularies=dict(self.vocabularies),
            max_nodes=None if store is None else store.max_nodes(graphs),
            largest_graph=None if store is None else store.max_nodes(),
            degree_histogram=None if store is None else Measured(partial(store.degree_histogram, graphs)),
        )

    def check(self, store: GraphStore, where: str = "") -> None:
        """Compares loaded data with the declared facts.

        Args:
            store: loaded data.
            where: the folder it was read from, for the message.

        Raises:
            UserError: something differs; the message lists every difference.
        """
        graphs = max(store.num_graphs, 1)
        measured = {
            "graphs": store.num_graphs,
            "nodes": store.num_nodes,
            "edges": store.num_edges,
            "nodes_per_graph": store.num_nodes / graphs,
            "edges_per_graph": store.num_edges / graphs,
        }
        wrong = [
            f"{name} {measured[name]:g} instead of {stated:g}"
            for name, stated in self.statistics.items()
            if abs(measured[name] - stated) > (_ROUNDING * stated if name.endswith("_per_graph") else 0)
        ]
        for name, stated, tensor in (("x", self.node_in, store.x), ("edge_attr", self.edge_in, store.edge_attr)):
            columns = 0 if tensor is None else tensor.shape[1]
            if columns != stated:
                wrong.append(f"{columns} columns of {name} instead of {stated}")
        classes = self._classes(store)
        if classes is not None and classes > max(self.out_dim, 2):
            wrong.append(f"{classes} classes instead of {max(self.out_dim, 2)}")
        if wrong:
            raise UserError(
                f"{where + ': ' if where else ''}these are not the published {self.name} graphs: {'; '.join(wrong)}. "
                "The raw files are incomplete or of another version: delete them and let them be downloaded again, or "
                "give your own graphs another name with 'dataset.format: custom' (docs/custom-data.md)."
            )

    def _classes(self, store: GraphStore) -> int | None:
        if store.y is None or store.y.is_floating_point() or not store.y.numel() or "class" not in self.task_type:
            return None
        return None if self.task_type == "classification_multilabel" else int(store.y.max()) + 1

    def replace(self, **changes: object) -> DatasetCard:
        """A copy with some facts exchanged."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def out_dim_of(y: torch.Tensor, task_type: str) -> int:
    """Width of the prediction for some targets: 1 for two classes, else classes, or columns.

    Args:
        y: (R,) or (R, T) targets.
        task_type: see ``vocabulary.TASK_TYPES``.
    """
    columns = 1 if y.dim() == 1 else y.shape[1]
    if task_type in ("regression", "classification_multilabel", "subtoken_prediction"):
        return columns
    valid = y[~torch.isnan(y)] if y.is_floating_point() else y
    classes = int(valid.max()) + 1 if valid.numel() else 1
    return 1 if classes <= 2 and task_type != "classification_multi" else classes
