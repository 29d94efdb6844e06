"""The ``{train,val,test}/stats.json`` files: one JSON object per line and evaluated epoch, as GraphGPS writes them."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from graphbench import atomic
from graphbench.errors import naming
from graphbench.runs import json_text
from graphbench.runs.record import RunRecord
from graphbench.vocabulary import SPLITS

logger = logging.getLogger("graphbench")


def read_lines(run: Path, split: str, record: RunRecord | None) -> list[dict[str, Any]]:
    """The evaluated epochs of a split as dictionaries.

    Records that are handed on come without files: no file gives none. A file that is not the one whose checksum its
    record has gives none either, with a warning; of a run that goes on, or was recorded before there were checksums,
    lines that are torn or damaged are left out.

    Args:
        run: the run directory.
        split: one of :data:`SPLITS`.
        record: record of the run, which has the checksum; None: nothing is known about the file.
    """
    file = run / split / "stats.json"
    if not file.is_file():  # records that are handed on come without it
        return []
    content = file.read_bytes()
    written = record.curves.get(split) if record else None
    if written not in (None, hashlib.sha256(content).hexdigest()):
        _tell_left_out(file)
        return []
    lines = []
    for line in content.decode(errors="replace").splitlines():
        with suppress(ValueError):
            values = json.loads(line)
            if isinstance(values, dict) and "epoch" in values and all(map(_is_number_or_null, values.values())):
                lines.append(values)
    return lines


@functools.cache  # curves are read for several figures of a page
def _tell_left_out(file: Path) -> None:
    logger.warning("%s is not what its run has written: its curve is left out", file)


def _is_number_or_null(value: object) -> bool:
    return value is None or isinstance(value, (int, float))


def read_curve(run: Path, split: str, metric: str, record: RunRecord | None) -> dict[int, float]:
    """A metric by epoch; epochs in which it was not computed, or is NaN, are left out.

    Args:
        run: the run directory.
        split: one of :data:`SPLITS`.
        metric: name of the metric in ``stats.json``, or ``loss``.
        record: record of the run, see :func:`read_lines`.
    """
    lines = read_lines(run, split, record)
    return {line["epoch"]: float(line[metric]) for line in lines if line.get(metric) is not None}


class History:
    """The lines of all splits, in memory and on disk.

    The copy in memory goes into the checkpoint. On resume it is put back with :meth:`restore`, which rewrites the
    files, so that lines of epochs after the checkpoint (they will be trained again) and torn last lines disappear.

    Args:
        folder: the run directory; None keeps the lines in memory only (processes other than the first).
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[str, tuple[Path, TextIO]] = {}
        self.lines: dict[str, list[str]] = {split: [] for split in SPLITS}

    def append(self, split: str, stats: Mapping[str, Any]) -> None:
        """Adds one line; readable in the file at once."""
        line = json_text.dumps(stats)
        self.lines[split].append(line)
        if self._folder is not None:
            path, file = self._file(split)
            with naming(path):
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

    def digests(self) -> dict[str, str]:
        """Split -> sha256 of its file, of the splits that have lines."""
        texts = {split: "".join(line + "\n" for line in lines) for split, lines in self.lines.items() if lines}
        return {split: hashlib.sha256(text.encode()).hexdigest() for split, text in texts.items()}

    def read(self, split: str) -> list[dict[str, Any]]:
        """The lines of a split as dictionaries."""
        return [json.loads(line) for line in self.lines[split]]

    def close(self) -> None:
        """Closes the files; a later :meth:`append` opens them again."""
        for _, file in self._files.values():
            with suppress(OSError):  # of lines that a full disk has refused before
                file.close()
        self._files.clear()

    def _file(self, split: str) -> tuple[Path, TextIO]:
        if split not in self._files:
            path = self._folder / split / "stats.json"  # type: ignore[operator]
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[split] = path, path.open("a", encoding="utf-8")
        return self._files[split]
