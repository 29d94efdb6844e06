"""The program under test: a fork of this process per call, so that libraries are imported once."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
TIMEOUT = 120.0
"""Seconds after which a call hangs that takes one on a machine of its own."""


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    Attributes:
        code: exit code; negative for a signal.
        out: standard output.
        err: standard error.
        seconds: it took.
        memory: bytes, largest resident size.
        hung: it was killed because it took too long.
    """

    code: int
    out: str
    err: str
    seconds: float
    memory: int
    hung: bool

    def defect(self, allowed: Sequence[int]) -> str | None:
        """What is wrong with it, None for nothing."""
        if self.hung:
            return f"hangs: no end after {self.seconds:.0f} s"
        if "Traceback (most recent call last)" in self.err:
            return "traceback: " + self.err.strip().splitlines()[-1]
        if self.code not in allowed:
            return f"exit code {self.code}: " + (self.err.strip().splitlines() or [""])[-1]
        one_of_several = '"error": ' in self.out  # of several configurations each has its line
        if self.code == 2 and self.err.count("error: ") != 1 and not one_of_several:
            return f"{self.err.count('error: ')} messages instead of one"
        if self.memory > 2 * GIB:
            return f"took {self.memory / GIB:.1f} GiB"
        return None


class Call:
    """A call of ``main.py``'s command line that runs beside this process.

    Args:
        arguments: of the command line.
        folder: working directory.
        prepare: called in the new process first, e.g. to limit what it may use.
        program: module whose ``main`` is called.
        patience: seconds after which it hangs.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        prepare: Callable[[], None] | None = None,
        program: str = "graphbench.commands.train",
        patience: float = TIMEOUT,
    ) -> None:
        self._patience = patience
        self._start = time.monotonic()
        self._streams = [tempfile.TemporaryFile("w+") for _ in range(2)]
        self.pid = os.fork()
        if self.pid == 0:
            self._run(arguments, folder, prepare, program)

    def _run(self, arguments: Sequence[str], folder: Path, prepare: Callable[[], None] | None, program: str) -> None:
        code = 1
        try:
            for number, stream in enumerate(self._streams, 1):
                os.dup2(stream.fileno(), number)
            os.chdir(folder)
            os.setpgid(0, 0)
            main = importlib.import_module(program).main
            if prepare is not None:
                prepare()
            code = main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001  what a user would see of it
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, until: Callable[[], bool] | None = None) -> Ended:
        """Waits for the end, and kills with SIGKILL when ``until`` says so."""
        hung, killed = False, False
        while True:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                break
            if not killed and until is not None and until():
                self.kill()
                killed = True
            if time.monotonic() - self._start > self._patience and not hung:
                hung = True
                self.kill()
            time.sleep(0.002)
        texts = []
        for stream in self._streams:
            stream.seek(0)
            texts.append(stream.read())
            stream.close()
        seconds = time.monotonic() - self._start
        return Ended(os.waitstatus_to_exitcode(status), *texts, seconds, usage.ru_maxrss * 1024, hung)


def call(
    arguments: Sequence[str],
    folder: Path,
    prepare: Callable[[], None] | None = None,
    program: str = "graphbench.commands.train",
    patience: float = TIMEOUT,
) -> Ended:
    """A call, from its start to its end."""
    return Call(arguments, folder, prepare, program, patience).wait()


def limit(name: int, value: int) -> Callable[[], None]:
    """For ``prepare``: a limit of the system on the new process."""
    return lambda: resource.setrlimit(name, (value, value))


def import_program() -> None:
    """Imports what calls need, once. Nothing is computed: threads do not survive a fork."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    for name in (
        "sklearn.metrics",
        "sklearn.model_selection",
        "graphbench.commands.train",
        "graphbench.commands.comparison",
        "graphbench.experiment",
        "graphbench.commands.prepare",
        "graphbench.sweeps.cli",
    ):
        importlib.import_module(name)
    registry = importlib.import_module("graphbench.registry")
    for namespace in registry.NAMESPACES:
        registry.components(namespace)
