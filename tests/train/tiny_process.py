"""Starts tiny_run.py as a program of its own, and reads what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


def result(process: subprocess.Popen[str]) -> dict:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def without_times(folder: Path) -> dict[str, list[dict]]:
    return {
        split: [
            {key: value for key, value in json.loads(line).items() if "time" not in key and "eta" not in key}
            for line in (folder / "tiny" / "0" / split / "stats.json").read_text().splitlines()
        ]
        for split in ("train", "val", "test")
    }
