"""``scripts/plots.py decay``: what is drawn is what the files say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.paths import ROOT

pytest.importorskip("matplotlib")

from graphbench.config import load_config
from graphbench.plots import decay
from graphbench.plots.cli import main as plots

STARTS = [[5.0, 4.9], [5.1, 4.5], [5.2, 4.0]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The files of a run of two heads that this figure reads."""
    return _run(tmp_path / "results/gradformer-mutag/0", "tu/gradformer-mutag", STARTS)


def _run(folder: Path, config: str, starts: list[list[float]]) -> Path:
    (folder / "val").mkdir(parents=True)
    (folder / "config.yaml").write_text(load_config(ROOT / f"configs/{config}.yaml", []).dump())
    lines = [{"epoch": e, **{f"start_{h}": value for h, value in enumerate(row)}} for e, row in enumerate(starts)]
    (folder / "val/stats.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_lines_are_the_files(run: Path) -> None:
    found = decay.read_starts(run)
    np.testing.assert_array_equal(found.values, STARTS)
    left, right = decay.draw(found, 10.0).axes
    for head, (mask, starts) in enumerate(zip(left.lines, right.lines[:2], strict=True)):
        np.testing.assert_array_equal(starts.get_ydata(), np.array(STARTS)[:, head])
        psi = mask.get_xdata()
        np.testing.assert_allclose(mask.get_ydata(), 0.6 ** np.maximum(psi - STARTS[-1][head], 0), rtol=1e-12)
    assert right.lines[2].get_ydata() == [5, 5]


def test_file_and_table(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plots(["decay", str(run), "--out", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").stat().st_size > 5000
    assert "| 1 | 5.0000 | 4.9000 | 4.0000 |" in capsys.readouterr().out


def test_wrong_input(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = _run(tmp_path / "results/gps-mutag/0", "tu/gps-mutag", [[], []])
    for given, message in (
        ([str(other)], "has no Gradformer attention"),
        ([str(run), "--distance", "0"], "--distance must be larger than 0"),
        ([str(tmp_path / "none")], "is no run directory"),
    ):
        assert plots(["decay", *given, "--out", str(tmp_path / "b.png")]) == 2
        assert message in capsys.readouterr().err
