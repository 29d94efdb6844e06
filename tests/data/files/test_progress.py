from __future__ import annotations

import io
from contextlib import suppress

import pytest
from rich.console import Console

from graphbench.data.files import progress
from graphbench.data.files.progress import Display, report


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set."""
    time = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: time[0])
    return time


def test_without_a_display_nothing_happens() -> None:
    report(1, 2)


def test_a_file_gets_a_line_now_and_then(now: list[float]) -> None:
    lines: list[str] = []
    with Display("computing X", lines.append, Console(file=io.StringIO())):
        assert lines == ["computing X"]
        for second in range(200):
            now[0] = 100 + second
            report(second, 400)
    assert lines[1] == "computing X: 8%, 6:10 left"  # after 30 s of 400
    assert len(lines) == 1 + 199 // 30
    report(1, 1)  # it is over
    assert len(lines) == 1 + 199 // 30


def test_a_terminal_gets_a_bar_with_the_time_left(now: list[float]) -> None:
    output, lines = io.StringIO(), list[str]()
    with Display("computing X", lines.append, Console(file=output, force_terminal=True, width=120)):
        for tenth in range(100):
            now[0] = 100 + tenth / 10
            report(tenth, 1000)
    assert lines == ["computing X"]
    text = output.getvalue()
    assert "computing X" in text
    assert "1:30 left" in text  # 9 s for the first tenth
    assert text.count("left") < 30  # throttled


def test_the_innermost_display_counts_and_the_outer_one_comes_back(now: list[float]) -> None:
    lines: list[str] = []
    console = Console(file=io.StringIO())
    with Display("outer", lines.append, console):
        with suppress(KeyError), Display("inner", lines.append, console):
            now[0] += 60
            report(1, 2)
            raise KeyError
        now[0] += 60
        report(3, 4)
    assert lines == ["outer", "inner", "inner: 50%, 1:00 left", "outer: 75%, 0:40 left"]
