"""Trainings of configs/quickstart.yaml in small, for figures of finished runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphbench.commands.train import main
from graphbench.plots.cli import main as plots
from tests.test_main import ROOT, TINY


def train(folder: Path, tag: str, *overrides: str, config: str = "quickstart.yaml", repeat: str = "2") -> Path:
    """Trains and returns the folder of the configuration."""
    command = ["--cfg", str(ROOT / "configs" / config), "--repeat", repeat, *TINY, "name_tag", tag]
    command += ["accelerator", "cpu", "out_dir", str(folder / "results"), "dataset.dir", str(folder / "datasets")]
    assert main([*command, *overrides]) == 0
    return folder / "results" / f"{Path(config).stem}-{tag}"


def stats(run: Path, split: str) -> list[dict[str, float]]:
    """The lines of ``stats.json``."""
    return [json.loads(line) for line in (run / split / "stats.json").read_text().splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one message of scripts/plots.py on wrong input."""
    assert plots([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert "wrote" not in out
    return err
