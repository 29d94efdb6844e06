"""A hundred thousand run records to tables and report, against limits of 30 seconds and 2 GiB.

The records are generated, as long as real ones, ten per configuration, and just written, so that the file system has
them in memory. Every program is a process of its own, with the time that Python takes to start. The first one also
makes the index (:mod:`graphbench.runs.record_index`); its time has no limit, it is shown beside the time without one.
``GRAPHBENCH_BENCH_RUNS`` sets another number of records.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import processor_seconds
from graphbench.benchmarks.record_folders import write_records

DATASETS, RUNS = 10, 10
SECONDS, MEBIBYTES = 30.0, 2048.0
_CHILD = (
    "import resource, sys; from graphbench.{module}.cli import main; code = main(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
)


def run() -> list[Case]:
    """Tables of configurations, of models by data sets, and the report."""
    total = int(os.environ.get("GRAPHBENCH_BENCH_RUNS", 100_000))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "records")
        write_records(root, total // (DATASETS * RUNS), DATASETS, RUNS)
        out = ["--out", str(Path(name, "out"))]
        programs = {
            "a row per configuration": ("tables", [str(root), *out]),
            "models by data sets": ("tables", [str(root), "--models", *out]),
            "report": ("report", [str(root), *out]),
        }
        first, _ = _measured(*programs["a row per configuration"])
        cases = [Case(f"{total:,} records, making the index", "nothing", [first], [first], target=0.0)]
        for what, program in programs.items():
            seconds, memory = _measured(*program)
            cases.append(Case(f"{total:,} records, {what}", "limit", [seconds], [SECONDS], target=1.0))
            cases.append(Case(f"{total:,} records, {what}", "limit", [memory], [MEBIBYTES], target=1.0, unit="MiB"))
        return cases


def _measured(module: str, arguments: list[str]) -> tuple[float, float]:
    """Seconds (of the processor, so that other work on the machine counts little) and peak memory in MiB."""
    before = processor_seconds(resource.RUSAGE_CHILDREN)
    code = _CHILD.format(module=module)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    wall = time.perf_counter() - started
    spent = processor_seconds(resource.RUSAGE_CHILDREN) - before
    print(f"{module} {' '.join(arguments)}: {spent:.1f} s of the processor, {wall:.1f} s on the clock", file=sys.stderr)
    return spent, int(done.stderr.split()[-1]) / 1024
