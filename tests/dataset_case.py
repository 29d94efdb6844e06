"""What the test of a data set declares for the tests that all data sets share; found by :func:`declared`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.paths import ROOT


@dataclass(frozen=True)
class TrainingCase:
    """A shipped configuration that trains for two epochs (``TRAINING_CASES`` of a test file, by readable name).

    Attributes:
        config: file below ``configs/``.
        real: folder of the real raw data that it needs, if it is trained on that.
        write: writes raw files of the published format below the data root it is given. Neither: generated.
        overrides: keys to be changed; ``{data}`` stands for the data root.
        replaced: module, attribute and value of constants that small files need.
        slow: the real files take long to be read.
    """

    config: str
    real: str | None = None
    write: Callable[[Path], None] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    replaced: tuple[tuple[Any, str, Any], ...] = ()
    slow: bool = False


class PublishedCounts(NamedTuple):
    """Published statistics of a real data set (``PUBLISHED_COUNTS`` of a test file, by ``format/name``).

    ``split``: sizes of the ``standard`` one; ``splits``: how many of them there are; ``slow``: takes seconds;
    ``exhaustive``: takes longer, and a quicker test of the data set compares the same numbers.
    """

    graphs: int
    nodes: int
    edges: int
    columns: int
    classes: int | None = None
    split: tuple[int, int, int] | None = None
    splits: int = 1
    slow: bool = False
    exhaustive: bool = False


def declared(name: str) -> dict[str, Any]:
    """What all test files of data sets declare under a name."""
    cases: dict[str, Any] = {}
    for path in sorted((ROOT / "tests/data/datasets").glob("test_*.py")):
        module = importlib.import_module(f"tests.data.datasets.{path.stem}")
        for key, case in vars(module).get(name, {}).items():
            assert key not in cases, f"{path}: {name} has '{key}' already"
            cases[key] = case
    return cases
