"""The ``{train,val,test}/stats.json`` files: one JSON object per line and evaluated epoch, as GraphGPS writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from graphbench.runs import atomic, json_text

SPLITS = ("train", "val", "test")


def read_curve(file: Path, metric: str) -> dict[int, float]:
    """A metric by epoch; epochs in which it was not computed, or is NaN, are left out.

    Args:
        file: a ``stats.json``; one that is missing has no epochs.
        metric: its name there, or ``loss``.
    """
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    evaluated = [json.loads(line) for line in lines]
    return {line["epoch"]: float(line[metric]) for line in evaluated if line.get(metric) is not None}


class History:
    """The lines of all splits, in memory and on disk.

    The copy in memory goes into the checkpoint. On resume it is put back with :meth:`restore`, which rewrites the
    files, so that lines of epochs after the checkpoint (they will be trained again) and torn last lines disappear.

    Args:
        folder: the run directory; None keeps the lines in memory only (processes other than the first).
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[str, TextIO] = {}
        self.lines: dict[str, list[str]] = {split: [] for split in SPLITS}

    def append(self, split: str, stats: Mapping[str, Any]) -> None:
        """Adds one line; readable in the file at once."""
        line = json_text.dumps(stats)
        self.lines[split].append(line)
        if self._folder is not None:
            file = self._file(split)
            file.write(line + "\n")
            file.flush()

    def restore(self, lines: Mapping[str, Sequence[str]]) -> None:
        """Replaces everything by ``lines``, on disk too."""
        self.close()
        self.lines = {split: list(lines.get(split, ())) for split in SPLITS}
        if self._folder is not None:
            for split, written in self.lines.items():
                path = self._folder / split / "stats.json"
                if written or path.exists():
                    atomic.write_text(path, "".join(line + "\n" for line in written))

    def read(self, split: str) -> list[dict[str, Any]]:
        """The lines of a split as dictionaries."""
        return [json.loads(line) for line in self.lines[split]]

    def close(self) -> None:
        """Closes the files; a later :meth:`append` opens them again."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, split: str) -> TextIO:
        if split not in self._files:
            path = self._folder / split / "stats.json"  # type: ignore[operator]
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[split] = path.open("a", encoding="utf-8")
        return self._files[split]
