"""``main.py`` killed in the middle, and ``main.py`` over two processes: the same numbers as in one go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.test_main import ROOT, TINY, call

CONFIG = ["--cfg", str(ROOT / "configs/quickstart.yaml"), *TINY, "optim.max_epoch", "8", "train.ckpt_period", "1"]


def _numbers(stdout: str) -> dict[str, Any]:
    return json.loads(stdout.splitlines()[-1])


def _curves(run_dir: Path) -> dict[str, list[dict[str, Any]]]:
    of_the_process = ("time_epoch", "time_iter", "eta", "eta_hours", "gpu_memory")
    return {
        split: [
            {name: value for name, value in json.loads(line).items() if name not in of_the_process}
            for line in (run_dir / split / "stats.json").read_text().splitlines()
        ]
        for split in ("train", "val", "test")
    }


@pytest.mark.slow
def test_kill_9_then_the_same_command_ends_with_the_same_numbers(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    uninterrupted = call(*CONFIG, cwd=whole)
    assert uninterrupted.returncode == 0, uninterrupted.stderr

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "main.py"), *CONFIG], cwd=killed, env=environment, stderr=subprocess.DEVNULL
    )
    curve = killed / "results/quickstart/0/train/stats.json"
    while not (curve.is_file() and len(curve.read_text().splitlines()) >= 3):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert json.loads((killed / "results/quickstart/0/record.json").read_text())["status"] == "running"

    resumed = call(*CONFIG, cwd=killed)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming at epoch" in (killed / "results/quickstart/0/logging.log").read_text()
    assert _numbers(resumed.stdout) == _numbers(uninterrupted.stdout)
    assert _curves(killed / "results/quickstart/0") == _curves(whole / "results/quickstart/0")
    assert json.loads((killed / "results/quickstart/0/record.json").read_text())["resumed"] == 1


@pytest.mark.slow
def test_two_processes_train_and_report_once(tmp_path: Path) -> None:
    done = call(*CONFIG, "accelerator", "cpu", "devices", "2", "--repeat", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    line = _numbers(done.stdout)
    assert line["runs"] == ["0", "1"]
    curves = _curves(tmp_path / line["run_dir"] / "0")
    assert [each["epoch"] for each in curves["train"]] == list(range(8))
    assert curves["train"][-1]["loss"] < curves["train"][0]["loss"]
