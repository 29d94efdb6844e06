"""Memory that a run keeps between its steps."""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from graphbench.train.allocator import MemoryKept, limits

GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")

# A tensor of 256 MiB, at least 128 pages, is made and freed again and again.
PROGRAM = """
import json, resource, psutil, torch
from graphbench.train.allocator import MemoryKept

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def again():
    before = faults()
    torch.ones(1 << 26)
    return faults() - before

def resident():
    return psutil.Process().memory_info().rss >> 20

again()
found = {"before": again(), "at_rest": resident()}
with MemoryKept() as memory:
    for _ in range(20):  # until the places that freed tensors left are large enough for the next one
        again()
    found |= {"active": memory.active, "kept": sum(again() for _ in range(5)), "held": resident()}
found |= {"after": again(), "given_back": resident()}
print(json.dumps(found))
"""


def _run(**environment: str) -> dict:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PROGRAM]
    settings = {**plain, "THP_MEM_ALLOC_ENABLE": "1", "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, env=settings, check=True, capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout)


@GLIBC
def test_freed_memory_is_used_again_inside_and_given_back_afterwards() -> None:
    found = _run()
    assert found["active"]
    assert found["before"] >= 128
    assert found["after"] >= 128
    assert found["kept"] < 64
    assert found["held"] > found["at_rest"] + 250
    assert found["given_back"] < found["at_rest"] + 50


@GLIBC
@pytest.mark.parametrize(
    "chosen",
    [
        {"MALLOC_MMAP_THRESHOLD_": "33554432"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=65536"},
        {"THP_MEM_ALLOC_ENABLE": "0"},
    ],
)
def test_what_the_environment_says_about_malloc_counts(chosen: dict[str, str]) -> None:
    found = _run(**chosen)
    assert not found["active"]
    assert found["kept"] >= 5 * 128


@pytest.fixture
def without_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", "1")


@GLIBC
@pytest.mark.parametrize("scarce", [False, True])
def test_nothing_is_kept_any_more_when_memory_gets_scarce(
    scarce: bool, without_choices: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Available:
        available = psutil.Process().memory_info().rss // 2 if scarce else 2**50

    monkeypatch.setattr(psutil, "virtual_memory", Available)
    with caplog.at_level(logging.INFO), MemoryKept() as memory:
        memory.review()
        assert memory.active is not scarce
        memory.review()  # says it once
    assert len(caplog.records) == scarce
    assert not memory.active


def _write(folder: Path, **files: int | str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("memory_", "memory.")).write_text(f"{content}\n")


def _member(system: Path, *lines: str) -> None:
    _write(system / "proc/self", cgroup="\n".join(lines))


def test_limits_of_nested_control_groups(tmp_path: Path) -> None:
    _member(tmp_path, "0::/slurm/job_1/step_0")
    job = tmp_path / "sys/fs/cgroup/slurm/job_1"
    _write(job, memory_max=4096, memory_current=1024)
    _write(job / "step_0", memory_max="max", memory_current=1000)
    assert list(limits(tmp_path)) == [(4096, job / "memory.current")]


def test_limits_of_version_1_inside_a_container(tmp_path: Path) -> None:
    _member(tmp_path, "5:cpu:/docker/abc", "4:memory:/docker/abc", "0::/")
    group = tmp_path / "sys/fs/cgroup/memory"
    _write(group, memory_limit_in_bytes=8192, memory_usage_in_bytes=1)
    assert list(limits(tmp_path)) == [(8192, group / "memory.usage_in_bytes")]


def test_no_limit(tmp_path: Path) -> None:
    assert list(limits(tmp_path)) == []
    _member(tmp_path, "4:memory:/")
    _write(tmp_path / "sys/fs/cgroup/memory", memory_limit_in_bytes=2**63 - 4096, memory_usage_in_bytes=1)
    assert list(limits(tmp_path)) == []
