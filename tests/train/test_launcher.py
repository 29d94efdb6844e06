"""What is done with the processes of a run when one of them fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from graphbench.train.launcher import Observer

SLEEPS = "import time; time.sleep(600)"


@pytest.fixture
def processes() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """One that fails, and two that would go on."""
    programs = {"first": SLEEPS, "failed": "raise SystemExit(3)", "other": SLEEPS}
    started = {name: subprocess.Popen([sys.executable, "-c", program]) for name, program in programs.items()}
    yield started
    for process in started.values():
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_others_are_killed_and_the_first_process_is_given_time(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    first, others = processes["first"], [processes["failed"], processes["other"]]
    Observer(first.pid, others, seconds=0, time_to_tell=3600).start()
    assert processes["other"].wait(timeout=60) == -signal.SIGKILL
    assert first.poll() is None
    Observer(first.pid, others, seconds=0, time_to_tell=0).start()
    assert first.wait(timeout=60) == -signal.SIGKILL
