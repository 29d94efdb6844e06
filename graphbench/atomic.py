"""Files that are either complete or absent: write beside the target, flush to disk, rename over it."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

from graphbench.errors import naming

ABANDONED = 24 * 60 * 60.0
"""Seconds after whose last change a temporary file counts as that of a killed process."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file that takes the place of ``path`` when the block ends without an exception.

    After an exception ``path`` is as it was before; after a power cut it has the old or the new content, never both.
    A link is replaced, not followed: what it leads to may be somebody else's (:func:`output` follows it).

    Args:
        path: the file to write; its folder must exist.
    """
    with temporary(path) as made:
        with made.open("xb") as file:
            _remove_abandoned(path, made)
            yield file
        put(made, path)


@contextmanager
def output(path: Path) -> Iterator[BinaryIO]:
    """A file that a user has named, as :func:`replacing`, but a link stays one, and a device or a pipe is written to.

    Folders above it are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not (path.is_file() or path.is_dir()):
        with path.open("wb") as file:
            yield file
    else:
        with replacing(path.resolve() if path.is_symlink() else path) as file:
            yield file


@contextmanager
def making_folder(path: Path) -> Iterator[Path]:
    """A folder that is filled under another name beside ``path`` and gets its own when the block ends.

    After an exception nothing of it is left. Folders above it are created; there may be none at ``path``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary(path) as made:
        made.mkdir()
        _remove_abandoned(path, made)
        yield made
        put(made, path)


@contextmanager
def temporary(path: Path) -> Iterator[Path]:
    """A name for a file or folder that is to take the place of ``path`` (:func:`put`); what is left is removed.

    It lies in the same folder (a rename is atomic inside one file system only) and is drawn at random: two machines may
    have processes of one number. Errors name what somebody has asked for, not the name that it is written under.
    """
    made = path.parent / f".{path.name}.{os.urandom(4).hex()}.tmp"
    try:
        with naming(path):
            yield made
    except OSError as error:
        if error.filename is not None:
            error.filename = str(error.filename).replace(str(made), str(path))
        raise
    finally:
        _remove(made)


def put(made: Path, path: Path) -> None:
    """Gives a file or folder its name, durably; an error is one of that name."""
    if made.is_file():
        with made.open("rb+") as file:
            os.fsync(file.fileno())
    try:
        made.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    sync_folder(path.parent)


def _remove(leftover: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _remove_abandoned(path: Path, own: Path) -> None:
    """Removes what killed processes have left of ``path`` a day ago, by the clock of the disk that ``own`` lies on."""
    now = own.stat().st_mtime
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            if now - leftover.stat().st_mtime > ABANDONED:
                _remove(leftover)


def write_text(path: Path, text: str) -> None:
    """Replaces the content of ``path`` by ``text`` (UTF-8), completely or not at all; creates its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


def unused(path: Path) -> Path:
    """The path, or with the first number behind its name, from 2 on, that nothing has."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain((path,), numbered) if not each.exists())


def rename(source: Path, target: Path) -> None:
    """Renames a file or folder inside one file system, durably."""
    source.replace(target)
    sync_folder(target.parent)


def sweep(folder: Path, name: str | None = None) -> None:
    """Removes what killed writers have left of one file, or of all; only for the one who holds the folder's lock."""
    for leftover in folder.glob(".*.tmp" if name is None else f".{glob.escape(name)}.*.tmp"):
        _remove(leftover)


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
