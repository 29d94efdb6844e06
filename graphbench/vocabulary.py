"""Words that configurations and data sets share, apart from everything that needs PyTorch: parsing stays fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

SPLITS = ("train", "val", "test")
"""The parts of a split, by which everything that is measured has its name."""

TaskLevel = Literal["graph", "node", "edge", "link_pred"]
TASKS: tuple[TaskLevel, ...] = get_args(TaskLevel)
"""Values of ``dataset.task``: what a target belongs to."""

TaskKind = Literal["binary", "multiclass", "multilabel", "regression", "subtoken"]
"""Kinds of tasks that losses and metrics tell apart; :mod:`graphbench.tasks.targets` has shapes and types of each."""

TaskType = Literal[
    "regression",
    "classification",
    "classification_binary",
    "classification_multi",
    "classification_multilabel",
    "subtoken_prediction",
]

TASK_TYPES: Mapping[TaskType, tuple[TaskKind, ...]] = {
    "regression": ("regression",),
    "classification": ("binary", "multiclass"),
    "classification_binary": ("binary",),
    "classification_multi": ("multiclass",),
    "classification_multilabel": ("multilabel",),
    "subtoken_prediction": ("subtoken",),
}
"""``dataset.task_type`` -> the kinds that it may be; the width of the prediction decides between two."""
