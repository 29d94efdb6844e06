"""stats.json: readable at any time, put back by a checkpoint."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from graphbench.runs.history import History, read_curve, read_lines
from graphbench.runs.record import RunRecord


def test_lines_are_in_the_file_at_once(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.append("val", {"epoch": 0, "loss": 0.1 + 0.2})
    history.append("val", {"epoch": 1, "auc": math.nan})
    lines = (tmp_path / "val" / "stats.json").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"epoch": 0, "loss": 0.1 + 0.2}, {"epoch": 1, "auc": None}]
    assert history.read("val") == [json.loads(line) for line in lines]
    history.close()


def test_restoring_drops_later_and_torn_lines(tmp_path: Path) -> None:
    history = History(tmp_path)
    for epoch in range(3):
        history.append("train", {"epoch": epoch})
    kept = {"train": history.lines["train"][:2]}
    with (tmp_path / "train" / "stats.json").open("a") as file:
        file.write('{"epoch": 3, "lo')
    again = History(tmp_path)
    again.restore(kept)
    again.append("train", {"epoch": 2, "again": True})
    again.close()
    history.close()
    lines = (tmp_path / "train" / "stats.json").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"epoch": 0}, {"epoch": 1}, {"epoch": 2, "again": True}]


def test_without_a_folder_nothing_is_written(tmp_path: Path) -> None:
    history = History(None)
    history.append("train", {"epoch": 0})
    history.restore({"train": ['{"epoch": 1}']})
    assert history.read("train") == [{"epoch": 1}]


def test_a_curve_that_its_run_has_not_written_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = History(tmp_path)
    for epoch in range(2):
        history.append("val", {"epoch": epoch, "auc": 0.5 + epoch})
    history.close()
    record = RunRecord("c", "0", 0, "0", status="finished", curves=history.digests())
    assert read_curve(tmp_path, "val", "auc", record) == {0: 0.5, 1: 1.5}
    file = tmp_path / "val" / "stats.json"
    file.write_text(file.read_text().replace("1.5", "1.6"))
    assert read_curve(tmp_path, "val", "auc", record) == {}
    assert f"{file} is not what its run has written" in caplog.text
    file.unlink()
    assert read_lines(tmp_path, "val", record) == []


def test_torn_lines_of_a_run_that_goes_on_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "stats.json").write_bytes(b'{"epoch": 0, "auc": 0.5}\n\xff\n[1]\n{"epoch": 1, "au')
    assert read_curve(tmp_path, "val", "auc", None) == {0: 0.5}
