"""stats.json: readable at any time, put back by a checkpoint."""

from __future__ import annotations

import json
import math
from pathlib import Path

from graphbench.runs.history import History


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
