"""Predictions of one or several trained models on the same graphs, and their files."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphbench import atomic
from graphbench.data.splits import without_target
from graphbench.errors import UserError
from graphbench.vocabulary import TaskType

ENDINGS = (".csv", ".npz", ".parquet")


@dataclass(frozen=True, eq=False)
class Predictions:
    """One row per graph, per node, or per pair of nodes.

    Attributes:
        task_type: kind of target, see ``vocabulary.TASK_TYPES``.
        runs: (M, R, C) outputs of every model: scores before softmax or sigmoid, or predicted values.
        graph: (R,) number of the graph, from 0: among those given, or of the examples of a split in the data set.
        node: (R,) number of the node inside its graph, of a pair its first; None for one row per graph.
        target_node: (R,) number of the second node of a pair; None for rows of graphs or nodes.
        threshold: threshold of :class:`~graphbench.predict.calibration.Calibration`: (K,) half widths of the
            intervals of a regression, else the largest 1 - p of a class that belongs to the set; None without one.
        label_threshold: probability above which a label of a binary or multilabel task is 1 (``model.thresh``).
        y: (R,) classes, or (R, K) labels or values: the targets of the examples of a split; NaN or a negative class
            where there is none. None of new graphs.
    """

    task_type: TaskType
    runs: Tensor
    graph: Tensor
    node: Tensor | None = None
    target_node: Tensor | None = None
    threshold: Tensor | None = None
    label_threshold: float = 0.5
    y: Tensor | None = None

    @property
    def of_runs(self) -> Tensor:
        """(M, R, K) probabilities of classes (two for a binary task) or labels, or predicted values, of every model."""
        if self.task_type == "regression":
            return self.runs
        if self.task_type == "classification_multilabel":
            return self.runs.sigmoid()
        if self.runs.shape[2] == 1:
            positive = self.runs.sigmoid()
            return torch.cat([1 - positive, positive], dim=2)
        return self.runs.softmax(2)

    @property
    def values(self) -> Tensor:
        """(R, K) their mean over the models."""
        return self.of_runs.mean(0)

    @property
    def std(self) -> Tensor | None:
        """(R, K) sample standard deviation over the models; None for one model."""
        return self.of_runs.std(0) if len(self.runs) > 1 else None

    @property
    def probability(self) -> Tensor:
        """(R, K) the mean as probabilities.

        Raises:
            ValueError: of a regression.
        """
        if self.task_type == "regression":
            raise ValueError("a regression has no probabilities; its predictions are in values")
        return self.values

    @property
    def label(self) -> Tensor:
        """(R,) most probable class, or 0 or 1 of a binary task; (R, K) 0 or 1 per label of a multilabel task.

        Raises:
            ValueError: of a regression.
        """
        if self.task_type == "classification_multilabel":
            return (self.probability > self.label_threshold).long()
        if self.runs.shape[2] == 1:
            return (self.probability[:, 1] > self.label_threshold).long()
        return self.probability.argmax(1)

    @property
    def interval(self) -> tuple[Tensor, Tensor]:
        """Both (R, K): lower and upper end for every value of a calibrated regression.

        Raises:
            ValueError: not calibrated, or no regression.
        """
        if self.threshold is None or self.task_type != "regression":
            raise ValueError("intervals are those of a calibrated regression")
        return self.values - self.threshold, self.values + self.threshold

    @property
    def prediction_set(self) -> Tensor:
        """(R, K) bool: the classes of every row that a calibrated classification cannot rule out.

        Raises:
            ValueError: not calibrated, or the classes do not exclude each other.
        """
        if self.threshold is None or self.task_type in ("regression", "classification_multilabel"):
            raise ValueError("sets of classes are those of a calibrated classification with one class per row")
        return 1 - self.probability <= self.threshold

    def of_rows(self, rows: Tensor | slice) -> Predictions:
        """Predictions of a subset of rows."""
        node, target, y = (None if each is None else each[rows] for each in (self.node, self.target_node, self.y))
        return replace(self, runs=self.runs[:, rows], graph=self.graph[rows], node=node, target_node=target, y=y)

    def columns(self) -> dict[str, np.ndarray]:
        """Columns by name: ``graph``, ``node``, ``label``, then ``value_k`` or ``probability_k`` and ``std_k``.

        Pairs have ``source`` and ``target`` in place of ``node``. Examples of a split have ``y``, of several
        labels or values ``y_k``, after their numbers. Calibrated regressions have ``lower_k`` and ``upper_k``,
        classifications ``set_k`` (0 or 1).
        """
        named = {"graph": self.graph.numpy()}
        if self.target_node is not None:
            assert self.node is not None
            named |= {"source": self.node.numpy(), "target": self.target_node.numpy()}
        elif self.node is not None:
            named["node"] = self.node.numpy()
        if self.y is not None:
            targets = self.y.reshape(len(self.y), -1)
            alone = targets.shape[1] == 1
            named |= {"y" if alone else f"y_{k}": column.numpy() for k, column in enumerate(targets.unbind(1))}
        if self.task_type != "regression":
            labels = self.label.reshape(len(self.label), -1)
            alone = self.task_type != "classification_multilabel"
            named |= {"label" if alone else f"label_{k}": column.numpy() for k, column in enumerate(labels.unbind(1))}
        what = "value" if self.task_type == "regression" else "probability"
        named |= {f"{what}_{k}": column.numpy() for k, column in enumerate(self.values.unbind(1))}
        if self.std is not None:
            named |= {f"std_{k}": column.numpy() for k, column in enumerate(self.std.unbind(1))}
        if self.threshold is not None:
            ends = zip(("lower", "upper"), self.interval, strict=True) if what == "value" else ()
            further = dict(ends) or {"set": self.prediction_set.long()}
            named |= {f"{name}_{k}": each.numpy() for name, value in further.items() for k, each in enumerate(value.T)}
        return named

    def write(self, file: str | Path) -> None:
        """Writes :meth:`columns` to a file, ``.csv``, ``.npz`` or ``.parquet`` by its name.

        Raises:
            UserError: another ending, or Parquet without a library for it.
        """
        file, columns = Path(file), self.columns()
        if file.suffix not in ENDINGS:
            raise UserError(f"--out {file}: allowed endings are {', '.join(ENDINGS)}.")
        with atomic.output(file) as target:
            if file.suffix == ".csv":
                target.write(_csv(columns).encode())
                return
            if file.suffix == ".npz":
                np.savez_compressed(target, **dict[str, Any](columns))
                return
            import pandas

            try:
                pandas.DataFrame(columns).to_parquet(target)
            except ImportError:
                raise UserError(
                    f"--out {file}: Parquet needs pyarrow: pip install 'graphbench-gt[parquet]'; .csv does not."
                ) from None


def _csv(columns: dict[str, np.ndarray]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_cells(name, column) for name, column in columns.items()), strict=True))
    return out.getvalue()


def _cells(name: str, column: np.ndarray) -> list[Any]:
    """Values of a column; a target that is missing is an empty cell."""
    cells: list[Any] = column.tolist()
    if name != "y" and not name.startswith("y_"):
        return cells
    missing = without_target(torch.from_numpy(column)).tolist()
    return ["" if absent else cell for cell, absent in zip(cells, missing, strict=True)]
