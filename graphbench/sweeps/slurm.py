"""Runs on a cluster: one SLURM job array per call, with plain ``sbatch`` and ``squeue`` (no accounting is needed).

Everything lies in ``<out_dir>/<sweep>-slurm/array-<n>/``: the script, the tasks, the job's number, logs, answers. What
is queued or running already, from this call or an earlier one, is not submitted again.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphbench.errors import UserError
from graphbench.runs import atomic
from graphbench.sweeps.array import ArrayFolder
from graphbench.sweeps.plan import Unit
from graphbench.sweeps.slurm_settings import SlurmSettings
from graphbench.sweeps.watch import Watcher
from graphbench.sweeps.worker import Answer

LARGEST_ARRAY = 1000
"""Jobs of one array; SLURM's own default limit (MaxArraySize) is 1001."""

NOTICE = 120
"""Seconds before the time limit at which a job is told to save its state."""

POLL = 5.0
"""Seconds between two looks at the queue."""


@dataclass(frozen=True)
class _Place:
    """Where a unit of work is in an array."""

    folder: ArrayFolder
    place: int
    index: int


class Arrays:
    """The job arrays of one sweep.

    Args:
        out_dir: they lie in ``<out_dir>/<sweep>-slurm``.
        name: of the sweep.
    """

    def __init__(self, out_dir: Path, name: str) -> None:
        self.name = re.sub(r"[^\w.+-]+", "-", name)
        self.folder = out_dir / f"{self.name}-slurm"

    def scripts(self, units: Sequence[Unit], settings: SlurmSettings, jobs: int | None) -> list[str]:
        """The scripts that would be submitted for these units."""
        first = self._next()
        return [
            _script(
                self._array(first + n), f"{self.name}.{first + n}", math.ceil(len(part) / settings.runs), settings, jobs
            )
            for n, part in enumerate(_parts(units, settings))
        ]

    def submit(self, units: Sequence[Unit], settings: SlurmSettings, jobs: int | None) -> list[str]:
        """Submits the units, in order; returns the numbers of the job arrays.

        Raises:
            UserError: ``sbatch`` is missing or refuses.
        """
        found = []
        for part, script in zip(_parts(units, settings), self.scripts(units, settings, jobs)):
            array = self._array(self._next())
            array.write([each.key for each in part], [each.task() for each in part], settings.runs)
            atomic.write_text(array.script, script)
            job = _call("sbatch", "--parsable", str(array.script)).split(";")[0].strip()
            atomic.write_text(array.job_file, job)
            found.append(job)
        return found

    def queued(self) -> dict[tuple[str, str], _Place]:
        """What is in the queue and has not ended, by the key of the unit.

        Raises:
            UserError: ``squeue`` is missing or fails.
        """
        # %F, %K: number of the array and of its element; pending elements have a line each because of -r.
        lines = _call("squeue", "--me", "-h", "-r", "-o", "%F %K %j").splitlines()
        present = {tuple(line.split(maxsplit=2)) for line in lines}
        return {
            key: where
            for key, where, element in self.submitted()
            if element in present and where.folder.answer(where.place) is None
        }

    def submitted(self) -> Iterator[tuple[tuple[str, str], _Place, tuple[str, str, str]]]:
        """Everything that was ever submitted, the earliest first: key, place, and how the queue would call it."""
        for number in range(self._next()):
            array = self._array(number)
            if not array.job_file.is_file():
                continue  # sbatch has refused it
            job = array.job_file.read_text().strip()
            keys, runs = array.keys()
            for place, key in enumerate(keys):
                element = (job, str(place // runs), f"{self.name}.{number}")
                yield key, _Place(array, place, place // runs), element

    def _next(self) -> int:
        numbers = [int(each.name.removeprefix("array-")) for each in self.folder.glob("array-*")]
        return max(numbers, default=-1) + 1

    def _array(self, number: int) -> ArrayFolder:
        return ArrayFolder(self.folder / f"array-{number}")


def not_queued(units: Sequence[Unit], queued: Mapping[tuple[str, str], object]) -> list[Unit]:
    """The units that are not in the queue; of a search only the number of trials counts, since all are alike."""
    trials = Counter(folder for folder, _ in queued)
    left = []
    for unit in units:
        if unit.run is not None:
            if unit.key not in queued:
                left.append(unit)
        elif trials[unit.key[0]]:
            trials[unit.key[0]] -= 1
        else:
            left.append(unit)
    return left


def wait(arrays: Arrays, units: Sequence[Unit], watcher: Watcher) -> None:
    """Shows what the jobs do until none of the units is in the queue any more.

    Args:
        arrays: of the sweep.
        units: what was submitted, now or before.
        watcher: hears of every start and end.
    """
    by_key = {unit.key: unit for unit in units}
    open_places = {key: where for key, where, _ in arrays.submitted() if key in by_key}  # the latest of each
    seen: set[tuple[str, str]] = set()
    while open_places:
        present = arrays.queued()
        for key, where in list(open_places.items()):
            answer = where.folder.answer(where.place)
            if key not in seen and (answer or where.folder.log(where.index).is_file()):
                seen.add(key)
                watcher.started(by_key[key])
            if answer is None and key in present:
                continue
            reason = f"its job ended without a result: killed, or cancelled; see {where.folder.log(where.index)}"
            watcher.ended(by_key[key], answer or Answer("failed", reason))
            del open_places[key]
        watcher.tick()
        if open_places:
            time.sleep(POLL)


def _parts(units: Sequence[Unit], settings: SlurmSettings) -> Iterator[Sequence[Unit]]:
    size = LARGEST_ARRAY * settings.runs
    return (units[start : start + size] for start in range(0, len(units), size))


def _script(array: ArrayFolder, name: str, elements: int, settings: SlurmSettings, jobs: int | None) -> str:
    root = Path(__file__).resolve().parents[2]
    at_once = f"%{jobs}" if jobs else ""
    output = str(array.path.resolve()).replace("%", "%%") + "/%a.log"
    directives = [f"--job-name={name}", f"--array=0-{elements - 1}{at_once}", f"--output={shlex.quote(output)}"]
    directives += ["--open-mode=append", "--ntasks=1", f"--signal=B:USR1@{NOTICE}", *settings.directives()]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {each}" for each in directives),
        *settings.setup,
        f"cd {shlex.quote(str(Path.cwd()))}",
        f"export PYTHONPATH={shlex.quote(str(root))}${{PYTHONPATH:+:$PYTHONPATH}}",
        f"export OMP_NUM_THREADS=${{OMP_NUM_THREADS:-{settings.cpus}}}",
        f"export GRAPHBENCH_REQUEUE={int(settings.requeue)}",
        # exec: signals reach Python itself.
        f"exec {shlex.quote(sys.executable)} -m graphbench.sweeps.array {shlex.quote(str(array.path.resolve()))}",
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
