"""One element of a job array: ``python -m graphbench.sweeps.array FOLDER``, started by SLURM.

``FOLDER/tasks.json`` says what there is to train, ``$SLURM_ARRAY_TASK_ID`` which part of it is this job's. How each run
ended is written to ``FOLDER/answers``. Signals: SIGTERM (preemption, ``scancel``) ends the run with its state saved;
whether the job comes back is SLURM's decision. SIGUSR1 (close to the time limit) does the same, and the job queues
itself again where it may.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from graphbench.errors import Interrupted
from graphbench.runs import atomic
from graphbench.sweeps.worker import Answer, Task, execute


@dataclasses.dataclass(frozen=True)
class ArrayFolder:
    """The files that a launcher and its jobs share.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def tasks_file(self) -> Path:
        """Keys and tasks, in order."""
        return self.path / "tasks.json"

    @property
    def script(self) -> Path:
        """What is handed to ``sbatch``."""
        return self.path / "job.sh"

    @property
    def job_file(self) -> Path:
        """The number of the job array, once it is submitted."""
        return self.path / "job_id"

    def log(self, index: int) -> Path:
        """What a job prints before and after its runs."""
        return self.path / f"{index}.log"

    def write(self, keys: Sequence[tuple[str, str]], tasks: Sequence[Task], runs: int) -> None:
        """Writes the tasks; ``runs`` of them for each job."""
        (self.path / "answers").mkdir(parents=True)
        content = {"runs": runs, "keys": keys, "tasks": [each.plain() for each in tasks]}
        atomic.write_text(self.tasks_file, json.dumps(content, indent=1))

    def keys(self) -> tuple[list[tuple[str, str]], int]:
        """The keys of the tasks, and how many tasks a job has."""
        content = json.loads(self.tasks_file.read_text())
        return [(folder, number) for folder, number in content["keys"]], content["runs"]

    def tasks(self, index: int) -> dict[int, Task]:
        """The tasks of one job, by their place in the list."""
        content = json.loads(self.tasks_file.read_text())
        start = index * content["runs"]
        part = content["tasks"][start : start + content["runs"]]
        return {start + place: Task.from_plain(each) for place, each in enumerate(part)}

    def answer(self, place: int) -> Answer | None:
        """How a task ended, None: not yet."""
        try:
            return Answer(**json.loads(self._answer_file(place).read_text()))
        except FileNotFoundError:
            return None

    def write_answer(self, place: int, answer: Answer) -> None:
        """For :meth:`answer`."""
        atomic.write_text(self._answer_file(place), json.dumps(dataclasses.asdict(answer)))

    def _answer_file(self, place: int) -> Path:
        return self.path / "answers" / f"{place}.json"


class _Notice:
    """Turns SIGUSR1 into SIGTERM, and SIGTERM outside a training into an interruption."""

    def __init__(self) -> None:
        self.out_of_time = False
        signal.signal(signal.SIGUSR1, self._close_to_the_limit)
        signal.signal(signal.SIGTERM, self._stop)

    def _close_to_the_limit(self, number: int, frame: FrameType | None) -> None:
        self.out_of_time = True
        signal.raise_signal(signal.SIGTERM)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        raise Interrupted("stopped by SLURM outside a training")


def main(arguments: Sequence[str]) -> int:
    """Trains the tasks of this job; returns 0 where all of them have ended, well or not."""
    (folder,) = (ArrayFolder(Path(each)) for each in arguments)
    notice = _Notice()
    try:
        for place, task in folder.tasks(int(os.environ["SLURM_ARRAY_TASK_ID"])).items():
            if folder.answer(place) is not None:  # before the job was queued again
                continue
            answer = execute(task)
            if answer.status == "interrupted":
                raise Interrupted(answer.reason)
            folder.write_answer(place, answer)
    except Interrupted as error:
        print(f"interrupted: {error}", file=sys.stderr)
        if notice.out_of_time and os.environ.get("GRAPHBENCH_REQUEUE") == "1":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # SLURM sends it to what it takes away
            job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
            subprocess.run(["scontrol", "requeue", job], check=False)
        return Interrupted.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
