"""Files that are either complete or absent: write beside the target, flush to disk, rename over it."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from graphbench.errors import naming

ABANDONED = 24 * 60 * 60.0
"""Seconds after whose last change a temporary file counts as that of a killed process."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file that takes the place of ``path`` when the block ends without an exception.

    The temporary name lies in the same folder (a rename is atomic inside one file system only) and is drawn at random:
    two machines may have processes of one number. After an exception ``path`` is as it was before; after a power cut it
    is the old or the new content, never a mixture.

    Args:
        path: the file to write; its folder must exist.
    """
    temporary = _temporary(path)
    try:
        with _named_as(path, temporary), temporary.open("xb") as file:
            _remove_abandoned(path, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        _move(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


@contextmanager
def _named_as(path: Path, temporary: Path) -> Iterator[None]:
    """Lets errors name what somebody has asked for, not the name that it is written under."""
    try:
        with naming(path):
            yield
    except OSError as error:
        if error.filename is not None:
            error.filename = str(error.filename).replace(str(temporary), str(path))
        raise


def _move(temporary: Path, path: Path) -> None:
    """Moves a file to its place; an error is one of the file that somebody has asked for."""
    try:
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def making_folder(path: Path) -> Iterator[Path]:
    """A folder that is filled under another name beside ``path`` and gets its own when the block ends.

    After an exception nothing of it is left. Folders above it are created; there may be none at ``path``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        with _named_as(path, temporary):
            temporary.mkdir()
            _remove_abandoned(path, temporary)
            yield temporary
        _move(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


def _temporary(path: Path) -> Path:
    """Under which name ``path`` is written."""
    return path.parent / f".{path.name}.{os.urandom(4).hex()}.tmp"


def _remove_abandoned(path: Path, own: Path) -> None:
    """Removes what killed processes have left of ``path`` a day ago, by the clock of the disk that ``own`` lies on."""
    now = own.stat().st_mtime
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            if now - leftover.stat().st_mtime > ABANDONED:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def write_text(path: Path, text: str) -> None:
    """Replaces the content of ``path`` by ``text`` (UTF-8), completely or not at all; creates its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


def rename(source: Path, target: Path) -> None:
    """Renames a file or folder inside one file system, durably."""
    source.replace(target)
    sync_folder(target.parent)


def sweep(folder: Path) -> None:
    """Removes temporary files left behind by killed writers; only for the one who holds the folder's lock."""
    for leftover in folder.glob(".*.tmp"):
        with suppress(OSError):
            leftover.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes out of what the runs of a configuration share; waits for them."""
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".agg.lock"):
        yield


def sync_folder(folder: Path) -> None:
    """Makes renames inside ``folder`` survive a power cut, where the file system allows it."""
    with suppress(OSError):  # network and Windows file systems refuse to open or flush a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
