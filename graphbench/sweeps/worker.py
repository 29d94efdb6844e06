"""A process that trains one run after another, imported once. The other end of a pipe says which."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Task:
    """One run, in words that travel between processes.

    Attributes:
        file: of the configuration.
        overrides: ``(KEY, VALUE, ...)``.
        places: where the sweep file sets them.
        repeat: number of seeds of the entry.
        run_id: which of its runs.
        config_hash: of the configuration as it was checked.
        log_file: takes what the run prints.
    """

    file: Path
    overrides: tuple[str, ...]
    places: dict[str, str]
    repeat: int
    run_id: int
    config_hash: str
    log_file: Path


@dataclass(frozen=True)
class Answer:
    """How a run ended.

    Attributes:
        status: ``finished``, ``failed``, or ``interrupted`` (from outside, state kept).
        reason: why it failed, or was interrupted.
        line: the final line of a finished run.
    """

    status: Literal["finished", "failed", "interrupted"]
    reason: str = ""
    line: dict[str, Any] | None = None


def work(tasks: Connection) -> None:
    """Trains what arrives, answers each, and ends when the other end closes or its process dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the launcher says what it means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        task.log_file.parent.mkdir(parents=True, exist_ok=True)
        with task.log_file.open("a") as log:  # appending, so that two runs of an entry can write at the same time
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        answer = _run(task)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            tasks.send(answer)
        except OSError:  # nobody listens any more
            return
        if answer.status == "interrupted":
            return


def _run(task: Task) -> Answer:
    from graphbench.errors import Interrupted, RunFailed, UserError
    from graphbench.experiment import run
    from graphbench.sweeps.sweep import load_entry

    try:
        config = load_entry(task.file, task.overrides, task.places)
        if config.hash != task.config_hash:
            raise UserError(
                f"{task.file}: hash {task.config_hash} when the sweep began, {config.hash} now: the file, one it is "
                "based on, or the program was changed meanwhile. Start the sweep again."
            )
        line = run(config, repeat=task.repeat, only=task.run_id)
    except (UserError, RunFailed) as error:
        print(f"failed: {error}", file=sys.stderr)
        return Answer("failed", str(error))
    except (Interrupted, KeyboardInterrupt) as error:
        return Answer("interrupted", str(error) or "interrupted")
    except Exception as error:  # noqa: BLE001  a defect in one run must not end the others; its traceback is in the log
        traceback.print_exc()
        return Answer("failed", f"{type(error).__name__}: {error} (traceback in {task.log_file})")
    print(json.dumps(line), flush=True)
    return Answer("finished", line=line)


def _end_with_parent() -> None:
    """When the parent is killed, the run in progress is interrupted as by SIGTERM: its state is saved."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
