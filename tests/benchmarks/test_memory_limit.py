"""A limit on memory: that of the system where it lets us, its files where it does not."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from graphbench.benchmarks.memory_limit import forget_cached, limited
from graphbench.errors import UserError

MIB = 2**20


def system(folder: Path, controllers: str, own: str) -> tuple[Path, Path]:
    """Groups and membership as the system shows them; the limit of the own group is the content of its file."""
    groups, membership = folder / "cgroup", folder / "membership"
    membership.write_text(f"3:pids:/elsewhere\n0:{controllers}:{own}\n")
    return groups, membership


def group(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in {"cgroup.procs": "", **files}.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("mounted", ["user/own", "."], ids=["all groups", "the own group, as in a container"])
@pytest.mark.parametrize(
    ("controllers", "place", "before", "file"),
    [("memory", "memory", str(2**63 - 4096), "memory.limit_in_bytes"), ("", "", "max", "memory.max")],
    ids=["version 1", "version 2"],
)
def test_a_command_enters_a_group_inside_its_own(controllers, place, before, file, mounted, tmp_path, monkeypatch):
    groups, membership = system(tmp_path, controllers, "/user/own")
    own = group(groups / place / mounted, **{file: before})
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)  # files of a group vanish with it
    with limited(100 * MIB, groups, membership) as prefix:
        (inner,) = own.glob("graphbench-*")
        assert (inner / file).read_text() == str(100 * MIB)
        command = [sys.executable, "-c", "import os; print(os.getpid())"]
        done = subprocess.run([*prefix, *command], stdout=subprocess.PIPE, text=True, check=True)
        assert (inner / "cgroup.procs").read_text() == done.stdout
    assert not inner.exists()
    assert (own / "cgroup.subtree_control").exists() == (place == "")


def test_a_limit_that_is_there_is_used(tmp_path):
    groups, membership = system(tmp_path, "", "/scope")
    own = group(groups / "scope", **{"memory.max": str(50 * MIB)})
    with limited(50 * MIB, groups, membership) as prefix:
        assert prefix == []
        assert not list(own.glob("graphbench-*"))


def test_where_none_can_be_set_the_message_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match=r"no group with a memory controller.*systemd-run .* MemoryMax=100 "):
        limited(100, tmp_path, tmp_path / "none").__enter__()
    groups, membership = system(tmp_path, "", "/")
    groups.mkdir()
    (groups / "cgroup.procs").touch()
    (groups / "cgroup.subtree_control").mkdir()  # not to be written
    with pytest.raises(UserError, match=r"no limit of memory can be set here \(.*directory.*systemd-run"):
        limited(100, groups, membership).__enter__()


MAPPED = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    pages = mmap.mmap(file.fileno(), 0)
    for first in range(0, len(pages), 4096):
        pages[first] = 1
"""
ANONYMOUS = "bytearray(200 * 2**20)"


@pytest.mark.slow
def test_of_this_system_mapped_files_pass_through_and_more_memory_ends_the_command(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(200 * MIB)
    try:
        with limited(64 * MIB) as prefix:
            if not prefix:
                pytest.skip("the tests themselves run under a lower limit")
            forget_cached(tmp_path)
            more = subprocess.run([*prefix, sys.executable, "-c", ANONYMOUS], check=False)
            if more.returncode == 0:
                pytest.skip("this system has the files of a limit and does not keep to it")
            mapped = subprocess.run([*prefix, sys.executable, "-c", MAPPED, str(tmp_path / "file")], check=False)
    except UserError as error:
        pytest.skip(str(error))
    assert more.returncode == -signal.SIGKILL
    if not _is_in_memory(tmp_path):
        assert mapped.returncode == 0
    assert not Path(prefix[-1]).parent.exists()


def _is_in_memory(folder: Path) -> bool:
    """Whether files there are memory themselves (tmpfs), which nothing can take back."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    of_folder = [(len(place), kind) for place, kind in mounts if folder.resolve().is_relative_to(place)]
    return max(of_folder)[1] == "tmpfs"
