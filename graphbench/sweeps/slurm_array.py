"""One element of a job array: ``python -m graphbench.sweeps.slurm_array FOLDER``, started by SLURM.

``FOLDER/tasks.json`` holds the specifications of all runs, ``$SLURM_ARRAY_TASK_ID`` says which of them are this job's.
How a run ended is written to ``FOLDER/answers``. Signals: SIGTERM (preemption, ``scancel``) ends the run with its state
saved; whether the job comes back is SLURM's decision. SIGUSR1 (close to the time limit) does the same, and the job
queues itself again where it may.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from graphbench import atomic
from graphbench.errors import Interrupted, UserError
from graphbench.exit_codes import exit_codes
from graphbench.sweeps.run_spec import RunResult, Spec
from graphbench.sweeps.worker import execute, read_spec, written
from graphbench.train.signals import Ended

TOO_SHORT = (
    "the time limit of its job was over outside the training (reading data, computing encodings). Give it more time, "
    "or have these ready before: graphbench prepare."
)


@dataclasses.dataclass(frozen=True)
class ArrayFolder:
    """The files that a launcher and its jobs share.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def tasks_file(self) -> Path:
        """Keys and specifications of the runs, in order."""
        return self.path / "tasks.json"

    @property
    def script(self) -> Path:
        """Script handed to ``sbatch``."""
        return self.path / "job.sh"

    def log(self, job: str) -> Path:
        """File of what a job prints before and after its runs."""
        return self.path / f"{job}.log"

    def write(self, keys: Sequence[tuple[str, str]], specs: Sequence[Spec], runs: int) -> None:
        """Writes the specifications; ``runs`` of them for each job."""
        (self.path / "answers").mkdir(parents=True)
        content = {"runs": runs, "keys": keys, "tasks": [written(spec) for spec in specs]}
        atomic.write_text(self.tasks_file, json.dumps(content, indent=1))

    def keys(self) -> tuple[list[tuple[str, str]], int]:
        """The keys of the runs, and how many runs a job has."""
        content = self._content()
        return [(folder, number) for folder, number in content["keys"]], content["runs"]

    def specs(self, job: int) -> dict[int, Spec]:
        """The runs of one job, by their index in the array."""
        content = self._content()
        start = job * content["runs"]
        return {
            index: read_spec(plain)
            for index, plain in enumerate(content["tasks"][start : start + content["runs"]], start)
        }

    def _content(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self.tasks_file.read_text())
            if {"runs", "keys", "tasks"} <= content.keys():
                return content
        except (OSError, ValueError, AttributeError):
            pass
        raise UserError(
            f"{self.tasks_file}: missing or damaged, so that it is unknown which runs its jobs have. When none of them "
            f"is in the queue any more, remove {self.path} and submit the sweep again; what is finished is kept."
        )

    def result(self, index: int) -> RunResult | None:
        """Result of a run, None: not yet."""
        try:
            return RunResult(**json.loads(self._result_file(index).read_text()))
        except FileNotFoundError:
            return None

    def write_result(self, index: int, result: RunResult) -> None:
        """Writes the result that :meth:`result` reads."""
        atomic.write_text(self._result_file(index), json.dumps(dataclasses.asdict(result)))

    def _result_file(self, index: int) -> Path:
        return self.path / "answers" / f"{index}.json"


class _SignalHandler:
    """Turns SIGUSR1 into SIGTERM, and SIGTERM outside a training into an interruption.

    Attributes:
        out_of_time: SIGUSR1 has come.
        outside: a signal has come outside a training.
    """

    def __init__(self) -> None:
        self.out_of_time = self.outside = False
        signal.signal(signal.SIGUSR1, self._near_time_limit)
        signal.signal(signal.SIGTERM, self._stop)

    def _near_time_limit(self, number: int, frame: FrameType | None) -> None:
        self.out_of_time = True
        signal.raise_signal(signal.SIGTERM)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.outside = True
        raise Ended("stopped by SLURM outside a training")


@exit_codes
def main(arguments: Sequence[str]) -> int:
    """Trains the runs of this job; returns 0 where all of them have ended, well or not."""
    (path,) = arguments
    folder = ArrayFolder(Path(path))
    if "SLURM_ARRAY_TASK_ID" not in os.environ:
        raise UserError(f"{folder.script} is started by sbatch, which says which of its jobs this one is.")
    number = int(os.environ["SLURM_ARRAY_TASK_ID"])
    specs = folder.specs(number)
    if not specs:
        raise UserError(f"{folder.tasks_file}: there is no job {number}; was it written anew for another sweep?")
    signals, comes_further = _SignalHandler(), False
    try:
        for index, spec in specs.items():
            if folder.result(index) is not None:  # before the job was queued again
                continue
            result = execute(spec)
            if result.status == "interrupted" or (signals.outside and result.status == "failed"):
                comes_further |= not signals.outside
                raise Interrupted(result.reason)
            folder.write_result(index, result)
            comes_further = True
    except (Interrupted, Ended):
        stuck = not comes_further and folder.result(index) is None  # queued again, it would get to the same place
        if signals.out_of_time and stuck:
            folder.write_result(index, RunResult("failed", TOO_SHORT))
        elif signals.out_of_time and os.environ.get("GRAPHBENCH_REQUEUE") == "1":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # SLURM sends it to what it takes away
            job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
            with suppress(OSError):  # a node without SLURM's commands
                subprocess.run(["scontrol", "requeue", job], check=False)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
