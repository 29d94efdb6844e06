"""A process that trains one run after another, imported once. The other end of a pipe says which."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from graphbench.config import Config
from graphbench.errors import Interrupted, Pruned, RunFailed, UserError
from graphbench.sweeps.search import SearchPlan


@dataclass(frozen=True)
class Task:
    """One run, or one trial of a search, in words that travel between processes.

    Attributes:
        file: of the configuration.
        overrides: ``(KEY, VALUE, ...)``.
        places: where the sweep file sets them.
        repeat: number of seeds of the entry.
        run_id: which of its runs; None: all of them (a trial).
        config_hash: of the configuration as it was checked.
        log_file: takes what the run prints.
        search: the search that the trial belongs to; None: a run.
    """

    file: Path
    overrides: tuple[str, ...]
    places: dict[str, str]
    repeat: int
    run_id: int | None
    config_hash: str
    log_file: Path
    search: SearchPlan | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        found = asdict(self) | {"file": str(self.file), "log_file": str(self.log_file)}
        if self.search is not None:
            found["search"] |= {"folder": str(self.search.folder)}
        return found

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Task:
        """Inverse of :meth:`plain`, before or after JSON."""
        paths = {"file": Path(plain["file"]), "log_file": Path(plain["log_file"])}
        search = plain["search"] and SearchPlan.from_plain(plain["search"])
        return cls(**{**plain, **paths, "overrides": tuple(plain["overrides"]), "search": search})


@dataclass(frozen=True)
class Answer:
    """How a run ended.

    Attributes:
        status: ``finished``, ``failed``, ``pruned`` (given up by a search) or ``interrupted`` (from outside, state
            kept).
        reason: why it did not finish.
        line: the final line of a finished run.
        trial: number of the trial in its search.
    """

    status: Literal["finished", "failed", "pruned", "interrupted"]
    reason: str = ""
    line: dict[str, Any] | None = None
    trial: int | None = None


def work(tasks: Connection) -> None:
    """Trains what arrives, answers each, and ends when the other end closes or its process dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the launcher says what it means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        answer = execute(task)
        try:
            tasks.send(answer)
        except OSError:  # nobody listens any more
            return
        if answer.status == "interrupted":
            return


def execute(task: Task) -> Answer:
    """Trains, with everything that is printed appended to the log file of the entry."""
    task.log_file.parent.mkdir(parents=True, exist_ok=True)
    with task.log_file.open("a") as log:  # appending, so that two runs of an entry can write at the same time
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    answer = train(task)
    sys.stdout.flush()
    sys.stderr.flush()
    return answer


def train(task: Task) -> Answer:
    """Trains in this process."""
    if task.search is None:
        return answered(lambda: _run(task), task.log_file)
    from graphbench.sweeps.trial import run_trial

    try:
        return run_trial(task, task.search)
    except UserError as error:  # the study cannot be opened
        return Answer("failed", str(error))


def answered(work: Callable[[], dict[str, Any] | None], log_file: Path) -> Answer:
    """Does ``work`` and says how it ended."""
    try:
        line = work()
    except (UserError, RunFailed) as error:
        print(f"failed: {error}", file=sys.stderr)
        return Answer("failed", str(error))
    except Pruned as error:
        print(f"pruned: {error}", file=sys.stderr)
        return Answer("pruned", str(error))
    except (Interrupted, KeyboardInterrupt) as error:
        return Answer("interrupted", str(error) or "interrupted")
    except Exception as error:  # noqa: BLE001  a defect in one run must not end the others; its traceback is in the log
        traceback.print_exc()
        return Answer("failed", f"{type(error).__name__}: {error} (traceback in {log_file})")
    print(json.dumps(line), flush=True)
    return Answer("finished", line=line)


def load_unchanged(task: Task) -> Config:
    """The configuration of the entry, as long as it is what was checked.

    Raises:
        UserError: it is not.
    """
    from graphbench.sweeps.sweep import load_entry

    config = load_entry(task.file, task.overrides, task.places)
    if config.hash != task.config_hash:
        raise UserError(
            f"{task.file}: hash {task.config_hash} when the sweep began, {config.hash} now: the file, one it is "
            "based on, or the program was changed meanwhile. Start the sweep again."
        )
    return config


def _run(task: Task) -> dict[str, Any] | None:
    from graphbench.experiment import run

    return run(load_unchanged(task), repeat=task.repeat, only=task.run_id)


def _end_with_parent() -> None:
    """When the parent is killed, the run in progress is interrupted as by SIGTERM: its state is saved."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
