"""What the profiler leaves behind, and that it changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphbench.train.profiler import Profiler
from tests.train.tiny_run import tiny_settings, tiny_trainer


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("steps", "epochs"), [(3, 8), (50, 4)], ids=["enough", "too few"])
def test_trace_and_table(tmp_path: Path, steps: int, epochs: int) -> None:
    plain = tiny_trainer(tmp_path / "plain", tiny_settings(max_epoch=epochs)).run()
    watched = tiny_trainer(tmp_path / "watched", tiny_settings(max_epoch=epochs), reporters=[Profiler(steps)]).run()
    assert watched.scores == plain.scores
    folder = tmp_path / "watched" / "tiny" / "0" / "profile"
    trace = json.loads((folder / "trace.json").read_text())
    names = {event.get("name") for event in trace["traceEvents"]}
    assert "aten::addmm" in names or "aten::mm" in names
    assert {f"ProfilerStep#{step}" for step in (2, 3)} <= names
    assert "Self CPU" in (folder / "operators.txt").read_text()
