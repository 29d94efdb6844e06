"""The journal of a search, to which several processes append."""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock


class JournalLock:
    """Keeps others out while lines are appended; for Optuna's ``JournalFileBackend``.

    Half a line that a full disk or a kill has left at the end is removed first: the next one would be appended to it,
    and nobody could read the journal any more.

    Args:
        journal: the file.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._lock = FileLock(journal.with_name(f".{journal.name}.lock"))

    def acquire(self) -> bool:
        """Waits; returns True."""
        self._lock.acquire()
        try:
            with self._journal.open("rb+") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
                if file.read(1) not in (b"", b"\n"):
                    file.seek(0)
                    file.truncate(file.read().rfind(b"\n") + 1)
        except BaseException:
            self._lock.release()
            raise
        return True

    def release(self) -> None:
        """Lets the next one in."""
        self._lock.release()
