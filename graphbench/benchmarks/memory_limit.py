"""A limit on the memory of a command and of what it starts, pages of files included: control groups of Linux.

https://docs.kernel.org/admin-guide/cgroup-v1/memory.html and https://docs.kernel.org/admin-guide/cgroup-v2.html. Beyond
the limit the system takes mapped files out of memory, and ends the command where that does not suffice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from graphbench.errors import UserError

GROUPS, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Folder that the groups are mounted in, and file with those of this process."""
VERSIONS = {
    1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    2: ("memory.max", "memory.swap.max"),
}
"""Files of a group: its memory, and its memory with swap (version 1) or its swap alone (version 2), in bytes."""


@contextmanager
def limited(size: int, groups: Path = GROUPS, membership: Path = MEMBERSHIP) -> Iterator[list[str]]:
    """Words in front of a command: it runs in a group of its own inside that of this process, without swap.

    In front of it there is nothing where the group of this process has such a limit, or a lower one, already. Version 2
    lets only its root group hold both processes and groups: elsewhere the command is started in a group from outside.

    Args:
        size: bytes.
        groups: see :data:`GROUPS`.
        membership: see :data:`MEMBERSHIP`.

    Raises:
        UserError: the system does not let this process make a group.
    """
    own, version = _own_group(groups, membership, size)
    memory, swap = VERSIONS[version]
    if _bytes(own / memory) <= size:
        yield []
        return
    inner = own / f"graphbench-{os.getpid()}"
    try:
        if version == 2:
            (own / "cgroup.subtree_control").write_text("+memory")
        inner.mkdir()
    except OSError as error:
        raise _refused(str(error), size) from None
    try:
        (inner / memory).write_text(str(size))
        if (inner / swap).exists():
            (inner / swap).write_text(str(size) if version == 1 else "0")
        yield ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(inner / "cgroup.procs")]
    finally:
        with suppress(OSError):  # a process of it is still ending; an empty group costs nothing
            inner.rmdir()


def _own_group(groups: Path, membership: Path, size: int) -> tuple[Path, int]:
    """Folder of the group that holds the memory of this process, and the version of its files."""
    lines = membership.read_text().splitlines() if membership.exists() else []
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    mount, path, version = groups / "memory", paths.get("memory"), 1
    if path is None:
        mount, path, version = groups, paths.get(""), 2
    # In a container the mount may be the group itself, whose path is that outside.
    found = [each for each in (mount / (path or "").lstrip("/"), mount) if (each / "cgroup.procs").exists()]
    if path is None or not found:
        raise _refused(f"{membership} and {groups} show no group with a memory controller", size)
    return found[0], version


def _bytes(file: Path) -> float:
    """Limit of a group; the root of version 2 has none."""
    text = file.read_text().strip() if file.exists() else "max"
    return math.inf if text == "max" else int(text)


def _refused(why: str, size: int) -> UserError:
    return UserError(
        f"no limit of memory can be set here ({why}). Start the command in a group that has it, and it is used: "
        f"systemd-run --scope -p MemoryMax={size} -p MemorySwapMax=0 COMMAND, or docker run -m {size} "
        f"--memory-swap {size} IMAGE COMMAND"
    )


def forget_cached(folder: Path) -> None:
    """Takes files out of the system's cache: their pages count for the group that read or wrote them, not for ours."""
    for path in (each for each in folder.rglob("*") if each.is_file()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
