"""Environment of a run: package versions, hardware, commit. Collecting it never fails; an unknown fact is None."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from graphbench.cores import available_cores

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

PACKAGES = (
    "graphbench-gt",
    "torch",
    "torch-geometric",
    "lightning-fabric",
    "numpy",
    "scipy",
    "scikit-learn",
    "ogb",
    "rdkit",
    "triton",
    "wandb",
)


def environment(repository: Path | None = None) -> dict[str, Any]:
    """Facts about software and hardware, JSON-ready.

    Args:
        repository: folder of the code; default: that of this package.

    Returns:
        ``python``, ``packages`` (installed ones only), ``platform``, ``host``, ``cpu``, ``cores``, ``threads`` (of
        torch), ``gpu``, ``git_commit``, ``git_dirty``, ``source`` (digest of all Python files); None where a fact
        cannot be found out: no commit where the code is installed beside a repository, not part of it.
    """
    import torch  # seconds, which nobody should wait who only reads records

    return {
        "python": platform.python_version(),
        "platform": _attempt(platform.platform),
        "host": _attempt(platform.node),
        "cpu": _attempt(_cpu),
        "cores": _attempt(available_cores),
        "threads": _attempt(torch.get_num_threads),
        "gpu": _attempt(_gpu),
        **(_own_code() if repository is None else _code(repository)),
    }


@cache
def _own_code() -> dict[str, Any]:
    """Software that this process runs; read once, because later edits and installations do not change it."""
    return _code(Path(__file__).resolve().parents[1])


def _code(folder: Path) -> dict[str, Any]:
    commit, dirty = _attempt(lambda: _git(folder)) or (None, None)
    return {
        "packages": _attempt(_packages) or {},
        "git_commit": commit,
        "git_dirty": dirty,
        "source": _attempt(lambda: _source(folder)),
    }


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Facts that change the last digits of a number, where both are known and differ: ``threads``, ``torch``, ...

    Args:
        then: an environment.
        now: another one.
    """
    names = ("python", "platform", "cpu", "gpu", "threads")
    facts = [{**{name: each.get(name) for name in names}, **(each.get("packages") or {})} for each in (then, now)]
    pairs = {name: (facts[0].get(name), facts[1].get(name)) for name in dict.fromkeys([*facts[0], *facts[1]])}
    return {name: (old, new) for name, (old, new) in pairs.items() if None not in (old, new) and old != new}


def peak_memory(device: torch.device) -> int | None:
    """Largest memory held so far, bytes: of the device for CUDA, of this process (resident) otherwise."""
    return _attempt(lambda: _peak_memory(device))


def forget_peak_memory(device: torch.device) -> None:
    """Lets :func:`peak_memory` count from now on. Without CUDA on Linux only: elsewhere a process keeps its peak."""
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)
    else:
        _attempt(lambda: Path("/proc/self/clear_refs").write_text("5"))


def _attempt(fact: Callable[[], T]) -> T | None:
    try:
        return fact()
    except Exception:  # noqa: BLE001  a missing fact must not cost a run
        return None


def _packages() -> dict[str, str]:
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _git(folder: Path) -> tuple[str, bool]:
    def run(*command: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()

    if not run("ls-files", "--", "*.py"):
        raise FileNotFoundError(f"the repository around {folder} does not hold its code")
    untracked = run("ls-files", "--others", "--", "*.py")  # ignored ones as well: the registry reads them, too
    return run("rev-parse", "HEAD"), bool(untracked or run("status", "--porcelain", "--untracked-files=no"))


def _source(folder: Path) -> str:
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        total.update(f"{file.relative_to(folder).as_posix()}\0".encode() + file.read_bytes())
    return total.hexdigest()


def _cpu() -> str | None:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or None


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        import torch

        # What torch.cuda.max_memory_allocated returns, after it has sorted all others by name.
        known = torch.cuda.memory_stats_as_nested_dict(device)
        return int(known["allocated_bytes"]["all"]["peak"]) if known else 0
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024  # the one that can be reset
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
