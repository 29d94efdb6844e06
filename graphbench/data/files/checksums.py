"""Checksums of large files, computed again only after the file has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

SMALL = 1 << 24
"""Bytes up to which a file is read in full every time: that takes 20 ms."""

_ENDS = 1 << 16


def remembered_checksum(path: Path, note: Path, compute: Callable[[], str]) -> str:
    """The checksum of a file's content, without reading a large file again that has not changed.

    A note next to it states the checksum and what the file looked like: size, time of change of content and of the
    directory entry, number on the disk, and a checksum of its first and last 64 KiB. While all that is the same, the
    file counts as unchanged; copying, replacing or writing to it makes it be read in full again. What goes unnoticed
    is a disk that changes bits in the middle of a large file by itself.

    Args:
        path: the file.
        note: file of the note; where it cannot be written, the file is read in full every time.
        compute: function that gives the checksum.
    """
    seen = _look(path)
    if seen["size"] <= SMALL:
        return compute()
    try:
        known = json.loads(note.read_text())
        if known["file"] == seen:
            return str(known["checksum"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no note, or a damaged one: it is written again
    checksum = compute()
    _write(note, json.dumps({"file": seen, "checksum": checksum}))
    return checksum


def _look(path: Path) -> dict[str, Any]:
    """Size, times, number and ends of a file, from which a change is noticed."""
    facts = path.stat()
    with path.open("rb") as file:
        ends = hashlib.sha256(file.read(_ENDS))
        file.seek(max(0, facts.st_size - _ENDS))
        ends.update(file.read())
    return {
        "size": facts.st_size,
        "changed": [facts.st_mtime_ns, facts.st_ctime_ns],
        "number": facts.st_ino,
        "ends": ends.hexdigest(),
    }


def _write(note: Path, text: str) -> None:
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text)  # half of it is no JSON, and is written again
    except OSError:
        pass  # a folder that may only be read
