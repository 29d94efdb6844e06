"""Lock around what one process computes for the cache, and others wait for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from graphbench.errors import UserError

_log = logging.getLogger("graphbench")


@contextmanager
def cache_lock(path: Path, what: str) -> Iterator[None]:
    """Held by one process at a time; the others wait, with a line in the log.

    Args:
        path: file of the lock; its folder is created.
        what: what is computed meanwhile, for that line.

    Raises:
        UserError: the cache may not be written to.
    """
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        _log.info("waiting for another process that computes %s", what)
        lock.acquire()
    except PermissionError as error:
        raise UserError(
            f"{path.parent}: {what} cannot be kept in this cache ({error.strerror}). Name a folder that may be written "
            "to in GRAPHBENCH_CACHE."
        ) from None
    try:
        yield
    finally:
        lock.release()
