"""Values of the configuration that data sets may take."""

from __future__ import annotations

from dataclasses import dataclass

from graphbench.registry import UNSET


@dataclass(frozen=True)
class DatasetContext:
    """Values for data sets; everything else is a key of ``dataset.<format>``.

    Attributes:
        name: ``dataset.name``.
        task: ``dataset.task``.
        task_type: ``dataset.task_type``.
        transductive: ``dataset.transductive``.
        slic_compactness: ``dataset.slic_compactness``.
        train_percent: ``prep.train_percent``, under ``compat: exphormer`` only.
        add_reverse_edges: ``prep.add_reverse_edges``, likewise.
        add_self_loops: ``prep.add_self_loops``, likewise.
        folder: folder of the configuration, where files that it names are looked for first.
    """

    name: str = UNSET
    task: str = UNSET
    task_type: str = UNSET
    transductive: bool = UNSET
    slic_compactness: int = UNSET
    train_percent: float = UNSET
    add_reverse_edges: bool = UNSET
    add_self_loops: bool = UNSET
    folder: str = UNSET
