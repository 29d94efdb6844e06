"""Runs on a cluster: one SLURM job array per call, with plain ``sbatch`` and ``squeue`` (no accounting is needed).

Everything is in ``<out_dir>/<sweep>-slurm/array-<n>/``: the script, the runs, the job's number, logs, results. What is
queued or running already, from this call or an earlier one, is not submitted again.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from graphbench.errors import UserError
from graphbench.runs import atomic
from graphbench.sweeps.dependencies import stages
from graphbench.sweeps.progress import SweepProgress
from graphbench.sweeps.run_spec import RunResult
from graphbench.sweeps.slurm_array import ArrayFolder
from graphbench.sweeps.slurm_settings import SlurmSettings
from graphbench.sweeps.work_item import RunKey, WorkItem

MAX_ARRAY_SIZE = 1000
"""Jobs of one array; SLURM's own default limit (MaxArraySize) is 1001."""

GRACE_PERIOD = 120
"""Seconds before the time limit at which a job is told to save its state."""

POLL_INTERVAL = 5.0
"""Seconds between two queries of the queue."""


@dataclass(frozen=True)
class _Submitted:
    """A work item in an array.

    Attributes:
        key: of the item.
        folder: of the array.
        index: of the item in the array.
        job: of the array that trains it.
        queue_name: number of the array, of the job, and name: as the queue prints them.
    """

    key: RunKey
    folder: ArrayFolder
    index: int
    job: int
    queue_name: tuple[str, str, str]

    @property
    def keys(self) -> list[RunKey]:
        """Of its runs."""
        folder, numbers = self.key
        return [(folder, number) for number in numbers.split(",")]

    @property
    def result(self) -> RunResult | None:
        """How it ended, None: not yet."""
        return self.folder.result(self.index)

    @property
    def log(self) -> Path:
        """Of its job."""
        return self.folder.log(self.job)


class Arrays:
    """The job arrays of one sweep.

    Args:
        out_dir: they lie in ``<out_dir>/<sweep>-slurm``.
        name: of the sweep.
    """

    def __init__(self, out_dir: Path, name: str) -> None:
        self.name = re.sub(r"[^\w.+-]+", "-", name)
        self.folder = out_dir / f"{self.name}-slurm"

    def scripts(self, items: Sequence[WorkItem], settings: SlurmSettings, jobs: int | None) -> list[str]:
        """The scripts that would be submitted for these items."""
        scripts = []
        for number, part in enumerate(_parts(items, settings), self._next()):
            size = math.ceil(len(part) / settings.runs)
            array, after = self._array(number), self._jobs_of({key for item in part for key in item.needs})
            scripts.append(_script(array, f"{self.name}.{number}", size, settings, jobs, after))
        return scripts

    def submit(self, items: Sequence[WorkItem], settings: SlurmSettings, jobs: int | None) -> list[str]:
        """Submits the items, in order; returns the numbers of the job arrays.

        Items that build on others are in arrays of their own, which start after those of the others.

        Raises:
            UserError: ``sbatch`` is missing or refuses.
        """
        submitted = []
        for stage in stages(items):
            for part, script in zip(_parts(stage, settings), self.scripts(stage, settings, jobs)):
                array = self._array(self._next())
                array.write([item.key for item in part], [item.spec() for item in part], settings.runs)
                atomic.write_text(array.script, script)
                job = _call("sbatch", "--parsable", str(array.script)).split(";")[0].strip()
                atomic.write_text(array.job_file, job)
                submitted.append(job)
        return submitted

    def _jobs_of(self, keys: Set[RunKey]) -> list[str]:
        """Numbers of the arrays with unfinished runs of these keys."""
        unfinished = (item for item in self.submitted() if not keys.isdisjoint(item.keys) and item.result is None)
        return list(dict.fromkeys(item.queue_name[0] for item in unfinished))

    def queued(self) -> set[RunKey]:
        """Keys of the runs that are in the queue and have not ended.

        Raises:
            UserError: ``squeue`` is missing or fails.
        """
        # %F, %K: number of the array and of its job; pending jobs have a line each because of -r.
        lines = _call("squeue", "--me", "-h", "-r", "-o", "%F %K %j").splitlines()
        present = {tuple(line.split(maxsplit=2)) for line in lines}
        waiting = (item for item in self.submitted() if item.queue_name in present and item.result is None)
        return {key for item in waiting for key in item.keys}

    def submitted(self) -> Iterator[_Submitted]:
        """Everything that was ever submitted, the earliest first."""
        for number in range(self._next()):
            array = self._array(number)
            if not array.job_file.is_file():
                continue  # sbatch has refused it
            array_job = array.job_file.read_text().strip()
            keys, runs = array.keys()
            for index, key in enumerate(keys):
                job = index // runs
                yield _Submitted(key, array, index, job, (array_job, str(job), f"{self.name}.{number}"))

    def _next(self) -> int:
        numbers = [int(path.name.removeprefix("array-")) for path in self.folder.glob("array-*")]
        return max(numbers, default=-1) + 1

    def _array(self, number: int) -> ArrayFolder:
        return ArrayFolder(self.folder / f"array-{number}")


def not_queued(items: Sequence[WorkItem], queued: Collection[RunKey]) -> list[WorkItem]:
    """What is not in the queue; of a search only the number of trials counts, since all are alike."""
    trials = Counter(folder for folder, _ in queued)
    left = []
    for item in items:
        if not item.is_interchangeable:
            rest = item.limited_to(set(item.keys).difference(queued))
            left += [] if rest is None else [rest]
        elif trials[item.key[0]]:
            trials[item.key[0]] -= 1
        else:
            left.append(item)
    return left


def wait(arrays: Arrays, items: Sequence[WorkItem], progress: SweepProgress) -> None:
    """Shows what the jobs do until none of the items is in the queue any more.

    Args:
        arrays: of the sweep.
        items: what was submitted, now or before.
        progress: is told every start and end.
    """
    by_run = {key: item for item in items for key in item.keys}
    latest = {key: each for each in arrays.submitted() for key in each.keys if key in by_run}
    pending: dict[RunKey, tuple[WorkItem, _Submitted]] = {}
    for run, submitted in latest.items():  # what was submitted together may be asked for one by one, and vice versa
        part = by_run[run].limited_to([each for each, job in latest.items() if job is submitted])
        if part is not None:
            pending[part.key] = (part, submitted)
    started: set[RunKey] = set()
    while pending:
        queued = arrays.queued()
        for key, (item, submitted) in list(pending.items()):
            result = submitted.result
            if key not in started and (result or submitted.log.is_file()):
                started.add(key)
                progress.started(item)
            if result is None and not queued.isdisjoint(submitted.keys):
                continue
            reason = f"its job ended without a result: killed, or cancelled; see {submitted.log}"
            progress.ended(item, result or RunResult("failed", reason))
            del pending[key]
        progress.refresh()
        if pending:
            time.sleep(POLL_INTERVAL)


def _parts(items: Sequence[WorkItem], settings: SlurmSettings) -> Iterator[Sequence[WorkItem]]:
    """The items of one array after the other."""
    size = MAX_ARRAY_SIZE * settings.runs
    return (items[start : start + size] for start in range(0, len(items), size))


def _script(
    array: ArrayFolder, name: str, size: int, settings: SlurmSettings, jobs: int | None, after: Sequence[str]
) -> str:
    root = Path(__file__).resolve().parents[2]
    at_once = f"%{jobs}" if jobs else ""
    output = str(array.path.resolve()).replace("%", "%%") + "/%a.log"
    directives = [f"--job-name={name}", f"--array=0-{size - 1}{at_once}", f"--output={shlex.quote(output)}"]
    directives += [f"--dependency=afterany:{':'.join(after)}"] if after else []
    directives += ["--open-mode=append", "--ntasks=1", f"--signal=B:USR1@{GRACE_PERIOD}", *settings.directives()]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {directive}" for directive in directives),
        *settings.setup,
        f"cd {shlex.quote(str(Path.cwd()))}",
        f"export PYTHONPATH={shlex.quote(str(root))}${{PYTHONPATH:+:$PYTHONPATH}}",
        f"export OMP_NUM_THREADS=${{OMP_NUM_THREADS:-{settings.cpus}}}",
        f"export GRAPHBENCH_REQUEUE={int(settings.requeue)}",
        # exec: signals reach Python itself.
        f"exec {shlex.quote(sys.executable)} -m graphbench.sweeps.slurm_array {shlex.quote(str(array.path.resolve()))}",
    ]
    return "\n".join(lines) + "\n"


def _call(*command: str) -> str:
    if shutil.which(command[0]) is None:
        raise UserError(
            f"--launcher slurm needs '{command[0]}', which is not installed here: call it on a login node of the "
            "cluster, or take --launcher local."
        )
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{command[0]} failed: {(done.stderr or done.stdout).strip() or f'code {done.returncode}'}")
    return done.stdout
