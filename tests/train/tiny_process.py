"""Starts tiny_run.py as a program of its own, and reads what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from graphbench.train.accelerator import make_fabric
from tests.train.tiny_run import parse, train

SCRIPT = Path(__file__).with_name("tiny_run.py")
ROOT = SCRIPT.parents[2]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )


def results(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The outcome of every run, once the process has ended."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    """Reads what the process prints up to a line."""
    assert process.stdout is not None
    for printed in process.stdout:
        if printed.strip() == line:
            return
    raise AssertionError(f"the process ended without printing {line!r}")


def in_this_process(folder: Path, *arguments: str) -> dict[str, Any]:
    """The outcome of one run, with as many threads as a process of its own has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return json.loads(json.dumps(train(make_fabric("cpu"), parse(str(folder), *arguments))))
    finally:
        torch.set_num_threads(threads)


def without_times(folder: Path) -> dict[str, list[dict]]:
    return {
        split: [
            {key: value for key, value in json.loads(line).items() if "time" not in key and "eta" not in key}
            for line in (folder / "tiny" / "0" / split / "stats.json").read_text().splitlines()
        ]
        for split in ("train", "val", "test")
    }
