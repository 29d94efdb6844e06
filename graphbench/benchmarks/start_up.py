"""CPU seconds from the command until something is to be seen: help, dry runs, the first training batch.

Each is measured in processes of one thread, the first of which fills the caches of files and is not counted, as is
waiting for a disk.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import ROOT, processor_seconds
from graphbench.experiment import run as run_experiment
from graphbench.train.reporter import Reporter

RUNS = 3
FILES = 400
CORA = "configs/nodes/sgformer-cora.yaml"
QUICKSTART = "configs/quickstart.yaml"


def run() -> list[Case]:
    """Cora from dataset.dir or $GRAPHBENCH_DATA."""
    shipped = (str(file.relative_to(ROOT)) for file in (ROOT / "configs").rglob("*.yaml"))
    files = sorted(file for file in shipped if "_base_" not in file)
    train, first = ("-m", "graphbench", "train"), ("-m", "graphbench.benchmarks.start_up")
    return [
        _case("--help", (*train, "--help"), 0.3),
        _case("--dry_run of one file", (*train, "--cfg", QUICKSTART, "--dry_run"), 1.5),
        _case(f"--dry_run of {FILES} files", (*train, "--cfg", *files[:FILES], "--dry_run"), 20.0, runs=1),
        _case("first training batch, Cora", (*first, CORA, "optim.max_epoch", "1"), 1.5),
    ]


def _case(name: str, command: Sequence[str], limit: float, runs: int = RUNS) -> Case:
    seconds = [_cpu_seconds(command) for _ in range(runs + 1)][1:]
    return Case(f"{name}, CPU time", "limit", seconds, [limit] * runs, target=1.0)


def _cpu_seconds(command: Sequence[str]) -> float:
    """Processor time of a command and its children; what it says shows where it fails."""
    before = processor_seconds(resource.RUSAGE_CHILDREN)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # those that have nothing to do wait by computing
    silent = subprocess.DEVNULL
    subprocess.run([sys.executable, *command], cwd=ROOT, env=one_thread, check=True, stdout=silent, stderr=silent)
    return processor_seconds(resource.RUSAGE_CHILDREN) - before


class _Leave(Reporter):
    """Ends the process behind the first batch."""

    def batch(self, epoch: int, done: int, total: int) -> None:
        os._exit(0)


def until_the_first_batch(path: str, overrides: Sequence[str]) -> None:
    """Runs ``graphbench train PATH`` until the first batch."""
    from graphbench.config import load_config

    with tempfile.TemporaryDirectory() as folder:
        run_experiment(load_config(path, [*overrides, "out_dir", folder]), reporters=[_Leave()])


if __name__ == "__main__":
    until_the_first_batch(sys.argv[1], sys.argv[2:])
