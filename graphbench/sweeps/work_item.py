"""Work that a launcher hands to a process: runs, a trial of a search, a shard of encodings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import TypeAlias

from graphbench.sweeps.run_spec import Spec

RunKey: TypeAlias = tuple[str, str]
"""Folder, and run id, count of trials or number of a shard."""


class WorkItem(ABC):
    """Work that one process does at a time, on its way through a launcher and its display.

    Attributes:
        attempts: number of starts.
    """

    attempts: int

    @property
    @abstractmethod
    def keys(self) -> tuple[RunKey, ...]:
        """Folder and number of everything in it: the same for the same work in another call."""

    @property
    @abstractmethod
    def cells(self) -> tuple[str, str, str, str]:
        """Configuration, row, column, and which of them: what is displayed."""

    @property
    @abstractmethod
    def log_file(self) -> Path:
        """File that it writes its output to."""

    @abstractmethod
    def spec(self) -> Spec:
        """Specification that a worker needs to do the work."""

    @abstractmethod
    def limited_to(self, keys: Collection[RunKey]) -> WorkItem | None:
        """The part of it that has these keys; None: nothing has."""

    @property
    def key(self) -> RunKey:
        """Folder and numbers in one."""
        folder, _ = self.keys[0]
        return folder, ",".join(number for _, number in self.keys)

    @property
    def needs(self) -> frozenset[RunKey]:
        """Keys of what it starts from, as far as that is done with it."""
        return frozenset()

    @property
    def is_interchangeable(self) -> bool:
        """Whether any other of the same folder will do in its place, as trials of a search do."""
        return False

    @property
    def in_use(self) -> bool:
        """Whether a process that is not of this launcher works on it."""
        return False

    @property
    def size(self) -> int:
        """Number that it adds to what is done."""
        return 1

    @property
    def name(self) -> str:
        """Row, column and folder."""
        return self.name_of(self.cells[3])

    def name_of(self, which: object) -> str:
        """Name of a part of the work."""
        configuration, row, column, _ = self.cells
        return f"{row} / {column} ({configuration} {which})"

    def unfinished(self) -> list[str]:
        """Names of what has not finished of it, once it has failed."""
        return [self.name]
