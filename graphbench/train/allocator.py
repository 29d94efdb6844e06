"""Memory of the host between the steps of a run.

glibc maps a tensor above 32 MiB anew and gives it back when it is freed, so that Linux has to clear every page of every
step again. Memory that stays with the process is clean already: an epoch on a graph of 2 million nodes takes 0.7 of the
time, at a peak 1.6 times as high, because what was freed does not always fit what comes next (docs/LOG.md). So memory
is kept only as long as there is plenty. With tcmalloc preloaded it is faster still and needs no more than given back.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

# The parameters of mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_CHOICES = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
_MIB = 2**20
_SYSTEM = Path("/")
_UNLIMITED = 2**60  # version 1 writes a number above it, version 2 a word

logger = logging.getLogger(__name__)


class MemoryKept:
    """While it is entered the process keeps the memory of freed tensors; in the end it goes back to the system.

    Does nothing without glibc, where the environment says how ``malloc`` shall behave (``MALLOC_MMAP_THRESHOLD_`` and
    the like of mallopt(3), or ``glibc.malloc`` in ``GLIBC_TUNABLES``), and without the huge pages that
    ``graphbench/__init__.py`` asks for: glibc then hardly ever finds a place for a tensor where one of its size was.
    """

    def __init__(self) -> None:
        self._glibc: ctypes.CDLL | None = None  # while memory is being kept
        self._process, self._limits = psutil.Process(), tuple(limits())

    @property
    def active(self) -> bool:
        """Memory is being kept."""
        return self._glibc is not None

    def __enter__(self) -> Self:
        self._glibc = _glibc() if _wanted() else None
        if self._glibc is not None:
            self._glibc.mallopt(_MMAP_MAX, 0)
            self._glibc.mallopt(_TRIM_THRESHOLD, -1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._give_back()

    def review(self) -> None:
        """Ends the keeping when the machine, or the job's share of it, has less memory left than the process holds."""
        if not self.active:
            return
        held, left = self._process.memory_info().rss, self._left()
        if left < held:
            self._give_back()
            logger.info(
                "The run holds %d MiB and %d MiB are left: freed memory goes back to the system from now on, which is "
                "slower. With tcmalloc it would not be (README, LD_PRELOAD).",
                held // _MIB,
                left // _MIB,
            )

    def _left(self) -> int:
        return min([psutil.virtual_memory().available, *(most - _number(used, 0) for most, used in self._limits)])

    def _give_back(self) -> None:
        if self._glibc is None:
            return
        # Setting any of these has ended glibc's own adjustment of both thresholds: they get the values that it
        # arrives at with tensors of 32 MiB.
        self._glibc.mallopt(_MMAP_MAX, 65536)
        self._glibc.mallopt(_MMAP_THRESHOLD, 32 * _MIB)
        self._glibc.mallopt(_TRIM_THRESHOLD, 64 * _MIB)
        self._glibc.malloc_trim(0)
        self._glibc = None


def limits(system: Path = _SYSTEM) -> Iterator[tuple[int, Path]]:
    """Bytes that control groups (of SLURM, of a container) grant this process, and the files with what they use.

    Args:
        system: where ``proc`` and ``sys`` are.
    """
    membership = system / "proc/self/cgroup"
    for line in membership.read_text().splitlines() if membership.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, most, used = system / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, most, used = system / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # The limit may be that of a group around it; inside a container only the outermost of these folders exists.
        inside = base / path.lstrip("/")
        for folder in (inside, *inside.parents[: len(inside.parts) - len(base.parts)]):
            limit = _number(folder / most, _UNLIMITED)
            if limit < _UNLIMITED and (folder / used).is_file():
                yield limit, folder / used


def _number(file: Path, otherwise: int) -> int:
    """In a file of one number; ``otherwise`` where there is none, or a word."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return otherwise


def _wanted() -> bool:
    chosen = any(name in os.environ for name in _CHOICES) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    return not chosen and os.environ.get("THP_MEM_ALLOC_ENABLE") == "1"


def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is one whose ``malloc`` can be told what to do."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows has no library without a name
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
