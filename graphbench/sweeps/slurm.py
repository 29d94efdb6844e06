"""Runs on a cluster: one SLURM job array per call, with plain ``sbatch`` and ``squeue`` (no accounting is needed).

Everything is in ``<out_dir>/<sweep>-slurm/array-<n>/``: the script, the runs, logs, results. What is queued or running
already, from whichever call, is not submitted again: the queue is asked for the scripts of these folders, so that a job
counts of which nobody was told (``sbatch`` lost its connection, or was killed).
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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphbench import atomic
from graphbench.errors import UserError
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

SEEN_AFTER = 90.0
"""Seconds after which a file of another machine is surely seen here: NFS asks again after up to 60."""

_DIRECTIVE = "#SBATCH "


@dataclass(frozen=True)
class _Submitted:
    """A work item in an array.

    Attributes:
        key: key of the item.
        folder: folder of the array.
        index: number of the item in the array.
        place: script of the array and number of the job that trains it, as the queue prints them.
    """

    key: RunKey
    folder: ArrayFolder
    index: int
    place: tuple[Path, str]

    @property
    def keys(self) -> list[RunKey]:
        """Keys of its runs."""
        folder, numbers = self.key
        return [(folder, number) for number in numbers.split(",")]

    @property
    def result(self) -> RunResult | None:
        """Result of the runs, None: not yet."""
        return self.folder.result(self.index)

    @property
    def log(self) -> Path:
        """Log file of its job."""
        return self.folder.log(self.place[1])


class Arrays:
    """The job arrays of one sweep.

    Args:
        out_dir: folder of the arrays: they lie in ``<out_dir>/<sweep>-slurm``.
        name: name of the sweep.
    """

    def __init__(self, out_dir: Path, name: str) -> None:
        self.name = re.sub(r"[^\w.+-]+", "-", name)
        self.folder = out_dir / f"{self.name}-slurm"

    def scripts(self, items: Sequence[WorkItem], settings: SlurmSettings, jobs: int | None) -> list[str]:
        """The scripts that would be submitted for these items, with words for the numbers of their job arrays."""
        made, words = [], dict[RunKey, str]()
        for number, part in enumerate(_parts(items, settings), self._next()):
            made.append(_script(self._array(number), self.name, part, settings, jobs, words))
            words |= dict.fromkeys(_keys(part), f"<job of array-{number}>")
        return made

    def submit(self, items: Sequence[WorkItem], settings: SlurmSettings, jobs: int | None) -> tuple[list[str], int]:
        """Submits what is not in the queue, in order. Of several calls each waits for the others.

        Items that build on others are in arrays of their own, which start after those of the others.

        Returns:
            The numbers of the job arrays, and how many items are in them.

        Raises:
            UserError: ``sbatch`` is missing or refuses.
        """
        _check_installed("squeue", "sbatch")
        numbers, count = [], 0
        with atomic.locked(self.folder):
            queued = self.queued()
            new = not_queued(items, queued)
            for part in _parts(new, settings):
                array = self._array(self._next())
                script = _script(array, self.name, part, settings, jobs, queued)
                array.write([item.key for item in part], [item.spec() for item in part], settings.runs)
                atomic.write_text(array.script, script)
                try:
                    numbers.append(_submit(array.script, script))
                except UserError as error:
                    done = f"{count} of {len(new)} were submitted before; the same command goes on with the others."
                    raise UserError(f"{error} {done}") from None
                count += len(part)
                queued |= dict.fromkeys(_keys(part), numbers[-1])
        return numbers, count

    def queued(self) -> dict[RunKey, str]:
        """The runs that are in the queue and have not ended, each with the number of its job array.

        Raises:
            UserError: ``squeue`` is missing or fails.
        """
        # %F, %K, %o: number of the array and of its job, the script; pending jobs have a line each because of -r. Not
        # only those of this user: another one may have submitted the same sweep.
        lines = _call("squeue", "-h", "-r", f"--name={self.name}", "-o", "%F %K %o").splitlines()
        jobs = [words for line in lines if len(words := line.split(maxsplit=2)) == 3]
        scripts = {name: Path(name).resolve() for name in {name for _, _, name in jobs}}
        present = {(scripts[name], job): array for array, job, name in jobs}
        waiting = (item for item in self.submitted() if item.place in present and item.result is None)
        return {key: present[item.place] for item in waiting for key in item.keys}

    def submitted(self) -> Iterator[_Submitted]:
        """Items that were ever handed to ``sbatch``, the earliest first."""
        for number in self._numbers():
            array = self._array(number)
            if array.script.is_file():
                script, (keys, runs) = array.script.resolve(), array.keys()
                yield from (
                    _Submitted(key, array, index, (script, str(index // runs))) for index, key in enumerate(keys)
                )

    def _numbers(self) -> list[int]:
        names = (path.name.removeprefix("array-") for path in self.folder.glob("array-*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _next(self) -> int:
        return max(self._numbers(), default=-1) + 1

    def _array(self, number: int) -> ArrayFolder:
        return ArrayFolder(self.folder / f"array-{number}")


def not_queued(items: Sequence[WorkItem], queued: Collection[RunKey]) -> list[WorkItem]:
    """Items that are not in the queue; of a search only the number of trials counts, since all are alike."""
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
        arrays: arrays of the sweep.
        items: items that were submitted, now or before.
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
    last_seen = dict.fromkeys(pending, time.monotonic())
    while pending:
        queued = _queued(arrays, progress)
        for key, (item, submitted) in list(pending.items()):
            result = submitted.result
            if key not in started and (result or submitted.log.is_file()):
                started.add(key)
                progress.started(item)
            if queued is None or any(run in queued for run in submitted.keys):
                last_seen[key] = time.monotonic()
            if result is None and time.monotonic() - last_seen[key] < SEEN_AFTER:
                continue
            reason = f"its job ended without a result: killed, or cancelled; see {submitted.log}"
            progress.ended(item, result or RunResult("failed", reason))
            del pending[key]
        progress.refresh()
        if pending:
            time.sleep(POLL_INTERVAL)


def _queued(arrays: Arrays, progress: SweepProgress) -> Collection[RunKey] | None:
    """Keys of the runs in the queue; None where SLURM does not answer, whose controller may be starting again."""
    try:
        return arrays.queued()
    except UserError as error:
        progress.note(str(error))
        return None


def _parts(items: Sequence[WorkItem], settings: SlurmSettings) -> Iterator[Sequence[WorkItem]]:
    """The items of one array after the other; what builds on others comes after them, in an array of its own."""
    size = MAX_ARRAY_SIZE * settings.runs
    for stage in stages(items):
        yield from (stage[start : start + size] for start in range(0, len(stage), size))


def _keys(items: Sequence[WorkItem]) -> list[RunKey]:
    return [key for item in items for key in item.keys]


def _script(
    array: ArrayFolder,
    name: str,
    items: Sequence[WorkItem],
    settings: SlurmSettings,
    jobs: int | None,
    arrays: Mapping[RunKey, str],
) -> str:
    """The script of an array; ``arrays``: numbers of those with the runs that it may have to wait for."""
    root = Path(__file__).resolve().parents[2]
    size, at_once = math.ceil(len(items) / settings.runs), f"%{jobs}" if jobs else ""
    after = sorted({arrays[key] for item in items for key in item.needs if key in arrays})
    output = str(array.path.resolve()).replace("%", "%%") + "/%a.log"
    directives = [f"--job-name={name}", f"--array=0-{size - 1}{at_once}", f"--output={shlex.quote(output)}"]
    directives += [f"--dependency=afterany:{':'.join(after)}"] if after else []
    directives += ["--open-mode=append", "--ntasks=1", f"--signal=B:USR1@{GRACE_PERIOD}", *settings.directives()]
    lines = [
        "#!/bin/bash",
        *(f"{_DIRECTIVE}{directive}" for directive in directives),
        *settings.setup,
        f"cd {shlex.quote(str(Path.cwd()))} || exit",  # elsewhere relative paths would be others
        f"export PYTHONPATH={shlex.quote(str(root))}${{PYTHONPATH:+:$PYTHONPATH}}",
        f"export OMP_NUM_THREADS=${{OMP_NUM_THREADS:-{settings.cpus}}}",
        f"export GRAPHBENCH_REQUEUE={int(settings.requeue)}",
        # exec: signals reach Python itself.
        f"exec {shlex.quote(sys.executable)} -m graphbench.sweeps.slurm_array {shlex.quote(str(array.path.resolve()))}",
    ]
    return "\n".join(lines) + "\n"


def _submit(path: Path, script: str) -> str:
    """Hands a script to ``sbatch``; the number of its job array."""
    # Once more on the command line: variables of the environment (SBATCH_PARTITION, ...) win over what a script says.
    lines = (line.removeprefix(_DIRECTIVE) for line in script.splitlines() if line.startswith(_DIRECTIVE))
    options = ["--export=ALL", *shlex.split(" ".join(lines))]
    return _call("sbatch", "--parsable", *options, str(path.resolve())).split(";")[0].strip()


def _call(*command: str) -> str:
    _check_installed(command[0])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip() or f"code {done.returncode}"
        raise UserError(f"{command[0]} failed: {reason.rstrip('.')}.")
    return done.stdout


def _check_installed(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise UserError(
                f"--launcher slurm needs '{program}', which is not installed here: call it on a login node of the "
                "cluster, or take --launcher local."
            )
