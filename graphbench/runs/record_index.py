"""A copy of many run records in SQLite, from which they are read faster than from a file per run.

Nothing believes it: a record is taken from it only while its file has the size, inode and times that it had when it was
read, checksum and all; otherwise the file is read again and its row replaced. ``<root>/.records.sqlite`` may be deleted
at any time, and is not made for few runs, or where nothing may be written. What many records share (settings,
environment, names of scores, ...) is stored once, and one object in memory.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import fields
from itertools import chain, starmap
from pathlib import Path
from typing import Any

from graphbench.runs import json_text
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.record import SCHEMA_VERSION, RunRecord, Score
from graphbench.runs.records import RecordFolder, many_runs, read_through

NAME = ".records.sqlite"

MANY = 1000
"""Runs from which an index is made."""

COMMIT = 5000
"""Rows added between two commits."""

_OWN = ("seed", "run_id", "status", "reason", "best_epoch", "epochs", "time_per_epoch", "total_time", "peak_memory")
_OWN_TOO = ("curves", "approximation_error", "started", "ended", "resumed")
_SHARED = tuple(
    field.name for field in fields(RunRecord) if field.name not in (*_OWN, *_OWN_TOO, "scores", "schema_version")
)
_TABLES = """
CREATE TABLE IF NOT EXISTS part (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, content TEXT);
CREATE TABLE IF NOT EXISTS run (folder TEXT, run_id TEXT, stamp TEXT, parts TEXT, own TEXT,
                                PRIMARY KEY (folder, run_id)) WITHOUT ROWID;
"""

logger = logging.getLogger("graphbench")


class RecordIndex:
    """The records below a folder.

    Args:
        root: the folder.

    Raises:
        sqlite3.Error: it cannot be opened or made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._parts: dict[int, Any] = {}
        self._numbers: dict[bytes, int] = {}
        self._latest: dict[int, tuple[object, int]] = {}
        self._kept = 0
        self._database = sqlite3.connect(root / NAME, timeout=5.0)
        try:
            # What a crash of the machine leaves half-written is thrown away: there is nothing to be lost in it.
            self._database.execute("PRAGMA synchronous = OFF")
            if self._database.execute("PRAGMA user_version").fetchone() != (_version(),):
                self._database.executescript(f"DROP TABLE IF EXISTS run; DROP TABLE IF EXISTS part; {_TABLES}")
                self._database.execute(f"PRAGMA user_version = {_version()}")
        except sqlite3.Error:
            self._database.close()
            raise

    def close(self) -> None:
        """Keeps what was added, where there is room for it."""
        with closing(self._database):
            try:
                self._database.commit()
            except sqlite3.Error as error:
                logger.info("%s: what was read is not kept (%s)", self.root / NAME, error)

    def records(
        self, folder: Path, run_ids: Iterable[str], read: Callable[[str], RunRecord | None]
    ) -> dict[str, RunRecord | None]:
        """The records of a configuration, None where there is none.

        Args:
            folder: folder of the configuration, below the root.
            run_ids: folder names of the runs.
            read: reads the file of a run.
        """
        name = folder.relative_to(self.root).as_posix()
        query = "SELECT run_id, stamp, parts, own FROM run WHERE folder = ?"
        known = {run_id: rest for run_id, *rest in self._database.execute(query, (name,))}
        found: dict[str, RunRecord | None] = {}
        for run_id in run_ids:
            stamp = _stamp(f"{folder}/{run_id}/record.json")
            row = known.get(run_id)
            if stamp is not None and row is not None and row[0] == stamp:
                found[run_id] = self._restored(row[1], row[2])
                continue
            found[run_id] = record = None if stamp is None else read(run_id)
            # A file that was exchanged meanwhile is read again the next time.
            if record is not None and stamp is not None and record.schema_version == SCHEMA_VERSION:
                self._add(name, run_id, stamp, record)
        return found

    def _add(self, folder: str, run_id: str, stamp: str, record: RunRecord) -> None:
        names = [[score.split, score.name, score.maximize, score.count] for score in record.scores]
        plain = {"data": record.data.plain()}
        shared = [names, *(plain.get(name, getattr(record, name)) for name in _SHARED)]
        own = [[score.value for score in record.scores], *(getattr(record, name) for name in (*_OWN, *_OWN_TOO))]
        row = (
            folder,
            run_id,
            stamp,
            json.dumps(list(starmap(self._number, enumerate(shared)))),
            json_text.dumps(own),
        )
        self._database.execute("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?)", row)
        if self._database.total_changes - self._kept > COMMIT:  # most is kept of what is broken off
            self._database.commit()
            self._kept = self._database.total_changes

    def _number(self, place: int, part: object) -> int:
        """Number of a part of records, which has its place among the others."""
        latest, number = self._latest.get(place, (self, 0))
        if part is latest:  # as what records share is, where it comes from one configuration
            return number
        number = self._number_of(part)
        self._latest[place] = part, number
        return number

    def _number_of(self, part: object) -> int:
        content = json_text.dumps(part)
        digest = hashlib.sha256(content.encode()).digest()
        if digest not in self._numbers:
            self._database.execute("INSERT OR IGNORE INTO part (digest, content) VALUES (?, ?)", (digest, content))
            (number,) = self._database.execute("SELECT id FROM part WHERE digest = ?", (digest,)).fetchone()
            self._numbers[digest] = number
        return self._numbers[digest]

    def _restored(self, parts: str, own: str) -> RunRecord:
        names, *shared = map(self._part, json.loads(parts))
        values, *rest = json.loads(own)
        scores = tuple(
            Score(split, name, float("nan") if value is None else value, maximize, count)
            for (split, name, maximize, count), value in zip(names, values, strict=True)
        )
        facts = dict(zip(chain(_SHARED, _OWN, _OWN_TOO), chain(shared, rest), strict=True))
        facts["commits"], facts["data"] = tuple(facts["commits"]), DataFacts.of(facts["data"])
        return RunRecord(**facts, scores=scores)

    def _part(self, number: int) -> Any:
        if number not in self._parts:
            (content,) = self._database.execute("SELECT content FROM part WHERE id = ?", (number,)).fetchone()
            self._parts[number] = json.loads(content)
        return self._parts[number]


@contextmanager
def indexed(roots: Iterable[Path]) -> Iterator[None]:
    """Reads records below some folders through their index; one that does not work is said and left alone.

    Args:
        roots: folders or files, see :func:`~graphbench.runs.records.record_sources`.
    """
    with ExitStack() as stack:
        indices: dict[Path, RecordIndex] = {}
        for root in roots:
            if not root.is_dir() or not many_runs(root, MANY):
                continue
            try:
                indices[root] = RecordIndex(root)
            except sqlite3.Error as error:
                logger.info("%s: records are read without an index (%s)", root / NAME, error)
                with suppress(OSError):
                    (root / NAME).unlink()
                continue
            stack.callback(indices[root].close)

        def read(source: RecordFolder, run_ids: Sequence[str]) -> Mapping[str, RunRecord | None]:
            for root in list(indices):
                if source.path.is_relative_to(root):
                    try:
                        return indices[root].records(source.path, run_ids, source.read)
                    except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
                        logger.info("%s: records are read without an index (%s)", root / NAME, error)
                        del indices[root]
            return {run_id: source.read(run_id) for run_id in run_ids}

        with read_through(read):
            yield


def _stamp(file: str) -> str | None:
    try:
        stat = os.stat(file)
    except OSError:
        return None
    return f"{stat.st_size} {stat.st_ino} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def _version() -> int:
    """Version of the rows: another one when records have other fields."""
    described = json.dumps([SCHEMA_VERSION, _SHARED, _OWN, _OWN_TOO])
    return int.from_bytes(hashlib.sha256(described.encode()).digest()[:4], "big") >> 1
