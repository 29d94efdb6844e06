"""A process that does one piece of work after another, imported once; the launcher sends specifications by a pipe."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from graphbench.exit_codes import told_to_user
from graphbench.sweeps.run_spec import RunResult, RunSpec, Spec
from graphbench.sweeps.shards import ShardSpec

KINDS: Mapping[str, type[Spec]] = {"run": RunSpec, "shard": ShardSpec}


def work(specs: Connection) -> None:
    """Does what arrives, sends each result back, and ends when the other end closes or its process dies."""
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


def written(spec: Spec) -> dict[str, Any]:
    """A specification and its kind, as JSON takes them."""
    (kind,) = (name for name, each in KINDS.items() if type(spec) is each)
    return {"kind": kind, **spec.plain()}


def read_spec(plain: Mapping[str, Any]) -> Spec:
    """Inverse of :func:`written`, before or after JSON; what names no kind is a run."""
    content = {name: value for name, value in plain.items() if name != "kind"}
    return KINDS[plain.get("kind", "run")].from_plain(content)


def execute(spec: Spec) -> RunResult:
    """Does it, with everything that is printed appended to its log file."""
    try:
        spec.log_file.parent.mkdir(parents=True, exist_ok=True)
        with spec.log_file.open("a") as log:  # appending, so that two can write at the same time
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
    except OSError as error:
        return RunResult("failed", str(told_to_user(error)))
    result = spec.run()
    for output in (sys.stdout, sys.stderr):
        with suppress(OSError):  # a full disk
            output.flush()
    return result


def _terminate_with_parent() -> None:
    """Interrupts the run in progress as SIGTERM does, its state saved, when the parent is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
