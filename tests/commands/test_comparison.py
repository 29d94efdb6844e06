"""Several configurations in one command: trained in turn, checked before, compared at the end."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphbench.commands.train import main
from graphbench.runs.record import Outcome
from graphbench.train.trainer import Trainer
from tests.test_main import ROOT, TINY, call

QUICKSTART = [str(ROOT / f"configs/quickstart{end}.yaml") for end in ("-gps", "-dfi", "")]
NAMES = ["quickstart-gps", "quickstart-dfi", "quickstart"]


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of the last table, by configuration; the second line of a row holds its layers."""
    lines = [line.split("│")[1:-1] for line in text[text.rindex("┃ configuration") :].splitlines() if "│" in line]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[::2]}


def _second_is_stopped(run: Callable[[Trainer], Outcome]) -> Callable[[Trainer], Outcome]:
    calls = itertools.count()

    def stopped(trainer: Trainer) -> Outcome:
        if next(calls):
            raise KeyboardInterrupt
        return run(trainer)

    return stopped


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, name: str, text: str = "") -> str:
    """A small configuration with something added."""
    path = folder / f"{name}.yaml"
    path.write_text(f"_base_: {QUICKSTART[0]}\naccelerator: cpu\n{text}")
    return str(path)


def test_the_quickstart_ends_in_a_table_and_a_line_for_each(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHBENCH_CACHE", str(here / "cache"))  # nobody has computed the encodings yet
    command = ["--cfg", *QUICKSTART, *TINY]
    assert main(command) == 0
    out, err = capfd.readouterr()
    lines = lines_of(out)
    assert [each["config"] for each in lines] == NAMES
    assert err.count("computing LapPE, RWSE") == 1, "the encodings are shared"

    rows = rows_of(err)
    assert list(rows) == NAMES
    for each in lines:
        test, val, zero_flow, params, _ = rows[each["config"]]
        assert test == f"{each['test']['accuracy-SBM']:.4f}"
        assert val == f"{each['val']['accuracy-SBM']:.4f}"
        assert zero_flow == (f"{each['test']['zero_flow']:.1%}" if each["config"] == "quickstart" else "-")
        record = json.loads((here / each["run_dir"] / "record.json").read_text())
        assert params == f"{record['params']:,}"

    files = sorted(path for path in (here / "results").rglob("*") if path.is_file())
    before = {path: path.stat().st_mtime_ns for path in files if path.parent.name in "012"}
    assert main(command) == 0
    again = capfd.readouterr()
    assert lines_of(again.out) == lines
    assert rows_of(again.err) == rows
    assert before == {path: path.stat().st_mtime_ns for path in before}, "finished runs are skipped"

    assert main(["--cfg", QUICKSTART[2], *TINY, "out_dir", "alone", "dataset.dir", "alone"]) == 0
    [alone] = lines_of(capfd.readouterr().out)
    assert {**alone, "run_dir": ""} == {**lines[2], "run_dir": ""}, "what was trained before has no influence"


def test_nothing_is_trained_when_one_configuration_is_wrong(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good, bad = write(here, "good"), write(here, "bad", "gt: {dim_hidden: 20}")
    assert main(["--cfg", good, bad, *TINY[:6]]) == 2
    out, err = capfd.readouterr()
    assert "gt.dim_hidden and gnn.dim_inner are the same width" in err
    assert out == ""
    assert not (here / "results").exists()
    assert not (here / "datasets").exists()


def test_two_files_with_one_run_folder_are_refused(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "other").mkdir()
    assert main(["--cfg", write(here, "same"), write(here / "other", "same"), *TINY]) == 2
    assert "share the run folder results/same" in capfd.readouterr().err
    assert not (here / "results").exists()


def test_different_numbers_of_devices_are_refused(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--cfg", write(here, "one"), write(here, "two", "devices: 2"), *TINY]) == 2
    assert "equally many devices, received 1 in one, 2 in two" in capfd.readouterr().err
    assert not (here / "results").exists()


def test_a_folder_that_is_taken_shows_before_the_training(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, taken = write(here, "first"), write(here, "taken")
    assert main(["--cfg", taken, *TINY]) == 0
    assert main(["--cfg", first, taken, *TINY, "gt.dropout", "0.3"]) == 2
    assert "holds a run (finished) of another configuration" in capfd.readouterr().err
    assert not (here / "results/first").exists()
    assert main(["--cfg", first, taken, *TINY, "gt.dropout", "0.3", "--overwrite", "--mark_done"]) == 0
    assert sorted(path.name for path in here.glob("*.yaml*")) == ["first.yaml_done", "taken.yaml_done"]


def test_files_are_marked_when_all_of_them_had_their_turn(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is stopped: the same command must still find the first."""
    command = ["--cfg", write(here, "first"), write(here, "second"), *TINY, "--mark_done"]
    with monkeypatch.context() as stopped:
        stopped.setattr("graphbench.train.trainer.Trainer.turns", _second_is_stopped(Trainer.turns))
        assert main(command) == 130
    assert not list(here.glob("*_done"))
    assert main(command) == 0
    assert "skipped" in capfd.readouterr().err
    assert sorted(path.name for path in here.glob("*.yaml*")) == ["first.yaml_done", "second.yaml_done"]


def test_one_failure_does_not_stop_the_others(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The last one starts from a run that the failing one does not leave: it is refused when its turn comes."""
    hot = write(here, "hot", "optim: {base_lr: 1e38}")
    after = write(here, "after", "pretrained: {dir: results/hot, adopt_architecture: false}")
    assert main(["--cfg", hot, write(here, "fine"), after, *TINY]) == 3
    out, err = capfd.readouterr()
    failed, fine, refused = lines_of(out)
    assert set(failed) == {"config", "error"}
    assert "the training loss is" in failed["error"]
    assert 0 <= fine["test"]["accuracy-SBM"] <= 1
    assert "no best.ckpt" in refused["error"]
    rows = rows_of(err)
    assert [(name, cells[0] == "failed", cells[-1]) for name, cells in rows.items()] == [
        ("hot", True, "0 of 1"),
        ("fine", False, "1"),
        ("after", True, "0 of 1"),
    ]
    assert re.search(r"^hot: epoch 0, batch", err, re.MULTILINE), "the reason stands below the table"


def test_a_run_may_start_from_one_made_by_the_same_command(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plus = here / "plus.yaml"
    plus.write_text(
        f"_base_: {QUICKSTART[2]}\n"
        "pretrained: {dir: results/quickstart-dfi, adopt_architecture: false, reset_prediction_head: false}\n"
    )
    assert main(["--cfg", QUICKSTART[1], str(plus), *TINY]) == 0
    out, err = capfd.readouterr()
    assert [each["config"] for each in lines_of(out)] == ["quickstart-dfi", "plus"]
    assert "pretrained: results/quickstart-dfi/0, epoch" in err


@pytest.mark.slow
def test_ctrl_c_stops_everything_and_the_same_command_goes_on(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = [write(here, "a", "optim: {max_epoch: 20}"), write(here, "b", "optim: {max_epoch: 2}")]
    command = ["--cfg", *files, *TINY[:-4], "train.batch_size", "4"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "main.py"), *command],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    curve = here / "results/a/0/train/stats.json"
    while not (curve.is_file() and len(curve.read_text().splitlines()) >= 2):
        assert process.poll() is None, "it ended before it could be interrupted"
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 130
    assert out == b"", "the next one is not started"
    assert not (here / "results/b").exists()

    assert main(command) == 0
    assert [each["config"] for each in lines_of(capfd.readouterr().out)] == ["a", "b"]
    assert json.loads((here / "results/a/0/record.json").read_text())["resumed"] == 1


@pytest.mark.slow
def test_two_processes_train_several_and_report_once(tmp_path: Path) -> None:
    options = ["--cfg", *QUICKSTART[1:], *TINY, "accelerator", "cpu", "devices", "2"]
    # The second process is called as the first one was, not as "graphbench train", which messages say.
    command = ("-m", "graphbench", "train")
    done = call(*options, cwd=tmp_path, program=command, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert [each["config"] for each in lines_of(done.stdout)] == NAMES[1:]
    assert done.stderr.count("┃ configuration") == 1
    assert set(rows_of(done.stderr)) == set(NAMES[1:])
