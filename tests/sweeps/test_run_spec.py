"""What a worker hands back, whatever becomes of its log."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

from graphbench.errors import Pruned, RunFailed, RunInUse
from graphbench.sweeps.run_spec import RunResult, capture_result

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.is_char_device(), reason="no file here that is always full")
@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        ({"metric": "mae"}, RunResult("finished", line={"metric": "mae"})),
        (RunFailed("the disk is full"), RunResult("failed", "the disk is full")),
        (Pruned("worse than others"), RunResult("pruned", "worse than others")),
        (RunInUse("wait"), RunResult("elsewhere", "wait")),
        (ZeroDivisionError("0/0"), RunResult("failed", "ZeroDivisionError: 0/0 (traceback in x.log)")),
    ],
)
def test_the_result_survives_a_log_without_room(outcome: Any, result: RunResult) -> None:
    def train() -> dict[str, Any]:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    with suppress(OSError), FULL.open("w", buffering=1) as full:  # at its end Python tries to write once more
        with redirect_stdout(full), redirect_stderr(full):
            received = capture_result(train, Path("x.log"))
    assert received == result
