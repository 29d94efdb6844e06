"""A process that trains one run after another, imported once; the launcher sends specifications through a pipe."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from graphbench.errors import UserError
from graphbench.exit_codes import told_to_user
from graphbench.sweeps.run_spec import RunResult, RunSpec, capture_result


def work(specs: Connection) -> None:
    """Trains what arrives, sends each result back, and ends when the other end closes or its process dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the launcher says what it means
    threading.Thread(target=_terminate_with_parent, daemon=True).start()
    while True:
        try:
            spec = specs.recv()
        except EOFError:
            return
        result = execute(spec)
        try:
            specs.send(result)
        except OSError:  # nobody listens any more
            return
        if result.status == "interrupted":
            return


def execute(spec: RunSpec) -> RunResult:
    """Trains, with everything that is printed appended to the log file of the entry."""
    try:
        spec.log_file.parent.mkdir(parents=True, exist_ok=True)
        with spec.log_file.open("a") as log:  # appending, so that two runs of an entry can write at the same time
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
    except OSError as error:
        return RunResult("failed", str(told_to_user(error)))
    result = train(spec)
    sys.stdout.flush()
    sys.stderr.flush()
    return result


def train(spec: RunSpec) -> RunResult:
    """Trains in this process."""
    from graphbench.experiment import run  # seconds of imports: after work() has told Ctrl-C to be ignored
    from graphbench.sweeps.trial import run_trial

    if spec.search is None:
        options: dict[str, Any] = {"repeat": spec.repeat, "only": spec.run_ids, "together": spec.together}
        return capture_result(lambda: run(spec.load_config(), **options), spec.log_file)
    try:
        return run_trial(spec, spec.search)
    except UserError as error:  # the study cannot be opened
        return RunResult("failed", str(error))


def _terminate_with_parent() -> None:
    """When the parent is killed, the run in progress is interrupted as by SIGTERM: its state is saved."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
