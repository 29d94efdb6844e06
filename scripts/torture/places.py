"""Disks that are full, folders that may only be read, and several processes at one place."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.torture.kills import after
from scripts.torture.program import Call, call, limit
from scripts.torture.workplace import COMMAND, Numbers, copy, leftovers


def full_disks(number: int, dice: random.Random, blank: Path, scratch: Path) -> Iterator[str | None]:
    """A disk without room, then the same command with room: exit code 3 and one message, then equal numbers.

    A tmpfs of its own where this process may mount one; else a limit on the size of files, which fails in the same
    calls of the system.
    """
    whole = call(COMMAND, copy(blank, scratch / "whole"))
    expected = Numbers.of(scratch / "whole", whole.out)
    for _ in range(number):
        size = int(4096 * 2 ** dice.uniform(0, 8))
        folder = copy(blank, scratch / "full")
        with _small_disk(folder / "results", size) as mounted:
            if mounted:
                ended = call(COMMAND, folder)
                left = [name for name in leftovers(folder) if "tmp" in name]
                os.system(f"mount -o remount,size=64m {folder / 'results'} 2>/dev/null")
            else:
                ended = call(COMMAND, folder, limit(resource.RLIMIT_FSIZE, size))
                left = [name for name in leftovers(folder) if "tmp" in name]
            defect = ended.defect((0, 3)) or (f"leaves {', '.join(left)}" if left else None)
            if defect is None:
                again = call(COMMAND, folder)
                defect = again.defect((0,)) or expected.difference(Numbers.of(folder, again.out))
        yield defect and f"{'tmpfs' if mounted else 'RLIMIT_FSIZE'} of {size} bytes: {defect}"


def read_only(number: int, dice: random.Random, blank: Path, scratch: Path) -> Iterator[str | None]:
    """Folders of somebody else: exit code 2 with one message, or 0 where nothing has to be written."""
    finished = copy(blank, scratch / "finished")
    whole = call(COMMAND, finished)
    expected = Numbers.of(finished, whole.out)
    for _ in range(number):
        is_finished = dice.random() < 0.5
        folder = copy(finished if is_finished else blank, scratch / "theirs")
        made = dice.choice(("", "results", "data", "results/rings"))
        (folder / made).mkdir(parents=True, exist_ok=True)
        everything = [folder, *folder.rglob("*")]
        for path in everything:
            path.chmod(0o555 if path.is_dir() else 0o444)
        ended = call(COMMAND, folder, _bound_by_modes)
        for path in everything:
            path.chmod(0o755 if path.is_dir() else 0o644)
        defect = ended.defect((0, 2))
        if defect is None and is_finished:
            defect = None if ended.code == 0 else f"a finished run cannot be read: {ended.err.strip()}"
            defect = defect or expected.difference(Numbers.of(folder, ended.out))
        yield defect and f"{'finished' if is_finished else 'new'}, {made or 'all'} read-only: {defect}"


def races(number: int, dice: random.Random, blank: Path, scratch: Path) -> Iterator[str | None]:
    """Four processes on one cache, or on one run folder; one of them is sometimes killed."""
    whole = call(COMMAND, copy(blank, scratch / "whole"))
    expected = Numbers.of(scratch / "whole", whole.out)
    for _ in range(number):
        folder = copy(blank, scratch / "race")
        together = dice.random() < 0.5
        tags = [[] if together or rival == 0 else ["name_tag", f"rival{rival}"] for rival in range(4)]
        rivals = [Call([*COMMAND, *tag], folder) for tag in tags]
        victim = dice.randrange(1, 4) if dice.random() < 0.5 else None
        if victim is not None:
            rivals[victim].wait(after(dice.uniform(0, whole.seconds)))
        ended = [rival.wait() for number, rival in enumerate(rivals) if number != victim]
        allowed = (0, 2) if together else (0,)
        defect = next(filter(None, (each.defect(allowed) for each in ended)), None)
        if defect is None:
            last = call(COMMAND, folder)
            defect = last.defect((0,)) or expected.difference(Numbers.of(folder, last.out))
        yield defect and f"{'one run folder' if together else 'one cache'}, killed: {victim}: {defect}"


def _bound_by_modes() -> None:
    """Gives up root's right to write everywhere (all capabilities, capset(2)); files stay readable for it."""
    os.environ["HOME"] = "/nonexistent"
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
        if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()):
            raise OSError(ctypes.get_errno(), "capset")


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[bool]:
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={max(size, 4096)}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], capture_output=True, check=False)
