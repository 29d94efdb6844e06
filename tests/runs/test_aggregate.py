"""Means over seeds, from records only."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from graphbench.runs import json_text
from graphbench.runs.aggregate import aggregate, write_aggregate
from graphbench.runs.identity import RunIdentity
from graphbench.runs.record import RunRecord, Score
from graphbench.runs.summary import final_line, results_table


def put(folder: Path, run: str, value: float, *, status: str = "finished", config_hash: str = "h", **more) -> None:
    record = RunRecord(
        config="tiny",
        config_hash=config_hash,
        seed=int(run.split(".")[0]),
        run_id=run,
        status=status,
        metric="accuracy",
        maximize=True,
        best_epoch=4,
        scores=(
            Score("val", "accuracy", value + 0.01, True, 10),
            Score("test", "loss", 1 - value, False, 10),
            Score("test", "accuracy", value, True, 10),
        ),
        ended="2026-01-01",
        **more,
    )
    record.write(folder / run / "record.json")


def test_sample_standard_deviation(tmp_path: Path) -> None:
    values = [0.81, 0.84, 0.79, 0.90]
    for seed, value in enumerate(values):
        put(tmp_path, str(seed), value)
    entry = aggregate(tmp_path).mean("test")
    assert entry.mean == pytest.approx(np.mean(values))
    assert entry.std == pytest.approx(np.std(values, ddof=1))
    assert (entry.n, entry.maximize) == (4, True)


def test_one_run_has_no_deviation(tmp_path: Path) -> None:
    put(tmp_path, "0", 0.8)
    entry = aggregate(tmp_path).mean("test")
    assert (entry.mean, entry.std, entry.n) == (0.8, None, 1)


def test_a_copied_run_counts_once(tmp_path: Path) -> None:
    put(tmp_path, "0", 0.8)
    shutil.copytree(tmp_path / "0", tmp_path / "1")
    result = aggregate(tmp_path)
    assert ([run.run_id for run in result.runs], result.left_out) == (["0"], {"1": "a copy of run 0"})


def test_the_folder_of_a_run_stands_for_this_run(tmp_path: Path) -> None:
    for seed, value in (("0", 0.8), ("1", 0.9)):
        put(tmp_path / "mine", seed, value)
    result = aggregate(tmp_path / "mine" / "1")
    assert ([run.run_id for run in result.runs], result.mean("test").mean) == (["1"], 0.9)
    assert result.config == "mine"


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    put(tmp_path, "0", 0.8)
    put(tmp_path, "1", 0.9)
    put(tmp_path, "2", 0.0, status="failed", reason="loss is nan")
    put(tmp_path, "3", 0.0, status="running")
    put(tmp_path, "4", 0.0, config_hash="other")
    (tmp_path / "5").mkdir()
    put(tmp_path, "0.old-20260101-000000", 0.1)
    result = aggregate(tmp_path, identity=RunIdentity("h"), only=range(7))
    assert [run.run_id for run in result.runs] == ["0", "1"]
    assert result.mean("test").mean == pytest.approx(0.85)
    assert result.left_out == {
        "2": "failed: loss is nan",
        "3": "running",
        "4": "other configuration",
        "5": "record.json missing, damaged or edited",
        "6": "missing",
    }
    everything = aggregate(tmp_path)
    assert {run.run_id for run in everything.runs} == {"0", "1"}
    assert aggregate(tmp_path, identity=RunIdentity("h"), only=[1]).mean("test").mean == 0.9


def test_nothing_at_all(tmp_path: Path) -> None:
    result = aggregate(tmp_path / "absent", only=[0])
    assert (result.runs, result.means, result.left_out) == ((), (), {"0": "missing"})
    assert final_line("SBM", result, tmp_path)["test"] == {}


def test_a_value_that_is_not_a_number_is_not_hidden(tmp_path: Path) -> None:
    put(tmp_path, "0", 0.8)
    put(tmp_path, "1", math.nan)
    entry = aggregate(tmp_path).mean("test")
    assert math.isnan(entry.mean)
    assert math.isnan(entry.std)


def test_files_of_the_aggregation(tmp_path: Path) -> None:
    for seed, value in enumerate([0.8, 0.9]):
        put(tmp_path, str(seed), value)
        path = tmp_path / str(seed) / "test" / "stats.json"
        path.parent.mkdir()
        lines = [{"epoch": epoch, "accuracy": value - epoch} for epoch in range(2 + seed)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"torn')
    write_aggregate(tmp_path)
    best = json.loads((tmp_path / "agg" / "test" / "best.json").read_text())
    assert best["accuracy"] == pytest.approx(0.85)
    assert best["accuracy_std"] == pytest.approx(np.std([0.8, 0.9], ddof=1))
    assert (best["n"], best["runs"]) == (2, ["0", "1"])
    lines = [json.loads(line) for line in (tmp_path / "agg" / "test" / "stats.json").read_text().splitlines()]
    assert [(line["epoch"], line["n"]) for line in lines] == [(0, 2), (1, 2), (2, 1)]
    assert lines[1]["accuracy"] == pytest.approx(-0.15)
    assert lines[2]["accuracy_std"] is None
    assert write_aggregate(tmp_path).runs == aggregate(tmp_path).runs  # agg/ itself is no run


def test_a_metric_that_some_runs_computed_says_how_many(tmp_path: Path) -> None:
    for seed, lines in enumerate(
        [
            [{"epoch": 2, "accuracy": 0.5, "f1": 0.9}],
            [{"epoch": 2, "accuracy": 0.7}],
            [{"epoch": 2, "accuracy": 0.6}, ["no", "object"], {"epoch": 3, "accuracy": "x"}],
        ]
    ):
        put(tmp_path, str(seed), 0.5)
        path = tmp_path / str(seed) / "test" / "stats.json"
        path.parent.mkdir()
        path.write_bytes("".join(json.dumps(line) + "\n" for line in lines).encode() + b'{"epoch": 4, "f\xff')
    write_aggregate(tmp_path)
    (line,) = (tmp_path / "agg" / "test" / "stats.json").read_text().splitlines()
    content = json.loads(line)
    assert (content["n"], content["accuracy_n"], content["f1_n"]) == (3, 3, 1)
    assert (content["f1"], content["f1_std"]) == (0.9, None)


def test_a_metric_without_a_value_says_why(tmp_path: Path) -> None:
    put(tmp_path, "0", 0.8, undefined={"test": {"auc": "only one class occurs"}})
    put(tmp_path, "1", math.nan)
    line = final_line("SBM", aggregate(tmp_path), tmp_path)
    assert line["undefined"] == {"test": {"auc": "only one class occurs"}}
    assert json.loads(json_text.dumps(line))["test"]["accuracy"] is None


def test_table_and_last_line(tmp_path: Path) -> None:
    put(tmp_path, "0", 0.8)
    put(tmp_path, "1", 0.9)
    put(tmp_path, "2", 0.0, status="failed", reason="loss is nan")
    result = aggregate(tmp_path)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    console.print(results_table(result))
    console.file.close()
    text = console.export_text()
    assert "2 runs" in text
    assert "0.8500 ± 0.0707" in text
    assert "run 2: failed: loss is nan" in text
    line = json.loads(json.dumps(final_line("SBM", result, tmp_path)))
    assert line["test"]["accuracy"] == pytest.approx(0.85)
    assert line["test"]["accuracy_std"] == pytest.approx(0.0707, abs=1e-4)
    assert (line["metric"], line["n"], line["runs"], line["run_dir"]) == ("accuracy", 2, ["0", "1"], str(tmp_path))
    alone = final_line("SBM", aggregate(tmp_path, only=[1]), tmp_path)
    assert alone["run_dir"] == str(tmp_path / "1")
    assert "accuracy_std" not in alone["test"]
