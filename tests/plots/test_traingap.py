"""``plots.py traingap`` on real runs: the numbers behind the figure, the files, the messages."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from graphbench.plots import canvas, traingap
from graphbench.plots.cli import main as plots
from graphbench.runs.record import RunRecord
from tests.plots.quickstart_runs import refused, stats, train

SEEDS = ("0", "1")
SIGNATURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def test_gaps_are_those_of_the_files_and_errors_count_the_other_way(gps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for metric, sign in ((None, 1), ("auc", 1), ("loss", -1)):
        gap = traingap.read_gap(gps, metric)
        name = metric or "accuracy-SBM"
        assert (gap.label, gap.dataset, gap.metric) == ("quickstart-gps", "SBM-PATTERN", name)
        assert gap.epochs.tolist() == [0, 1, 2]
        expected = [
            [sign * (a[name] - b[name]) for a, b in zip(stats(gps / s, "train"), stats(gps / s, "test"), strict=True)]
            for s in SEEDS
        ]
        np.testing.assert_allclose(gap.values, expected, rtol=1e-12)
    one = traingap.read_gap(gps / "1")
    monkeypatch.chdir(gps / "1")
    np.testing.assert_array_equal(one.values, traingap.read_gap(Path()).values)
    np.testing.assert_array_equal(one.values, traingap.read_gap(gps).values[1:])


def test_epochs_without_both_numbers_in_every_run_are_left_out(gps: Path, tmp_path: Path) -> None:
    for seed in SEEDS:
        for split in ("train", "test"):
            lines = stats(gps / seed, split)
            if (seed, split) == ("1", "train"):
                lines[1]["accuracy"] = None  # what NaN is written as
                del lines[2]["auc"]
            target = tmp_path / "copy" / seed / split / "stats.json"
            target.parent.mkdir(parents=True)
            target.write_text("".join(json.dumps(line) + "\n" for line in lines))
        record = RunRecord.read(gps / seed / "record.json")
        assert record is not None
        replace(record, curves={}).write(tmp_path / "copy" / seed / "record.json")  # these are other curves
    assert traingap.read_gap(tmp_path / "copy", "accuracy").epochs.tolist() == [0, 2]
    assert traingap.read_gap(tmp_path / "copy", "auc").epochs.tolist() == [0, 1]


def test_a_panel_per_data_set_with_a_mean_and_a_band_per_configuration(home: Path, gps: Path, sfi: Path) -> None:
    other = train(home, "one", "optim.max_epoch", "2", "gt.dim_hidden", "24", config="synthetic/cluster-gps.yaml",
                   repeat="1")  # fmt: skip
    gaps = [traingap.read_gap(folder, "loss") for folder in (gps, other, sfi)]
    with canvas.style():
        left, right = traingap.draw(gaps).axes
    assert (left.get_title(), right.get_title()) == ("SBM-PATTERN", "SBM-CLUSTER")
    assert left.get_ylabel() == "test minus train\nloss"
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["quickstart-gps", "quickstart-sfi"]
    for line, band, gap in zip(left.lines[:2], left.collections, (gaps[0], gaps[2]), strict=True):
        np.testing.assert_allclose(line.get_ydata(), gap.values.mean(0))
        low, high = band.get_paths()[0].get_extents().intervaly
        assert (low, high) == pytest.approx((gap.values.min(), gap.values.max()))
    assert left.lines[0].get_color() != left.lines[1].get_color()
    assert left.lines[0].get_linestyle() != left.lines[1].get_linestyle()
    assert not right.collections, "one run has no band"


@pytest.mark.parametrize("ending", SIGNATURES)
def test_the_figure_becomes_a_file_and_the_last_gaps_a_table(
    gps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    out = tmp_path / "new" / f"gap{ending}"
    assert plots(["traingap", str(gps), "--metric", "accuracy", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(SIGNATURES[ending])
    assert out.stat().st_size > 4000
    printed = capsys.readouterr().out
    values = traingap.read_gap(gps, "accuracy").values[:, -1]
    mean = f"{values.mean():.4f} ± {np.std(values, ddof=1):.4f}"
    assert f"| {mean} | 2 |" in printed.splitlines()[2]
    assert printed.splitlines()[2].startswith("| quickstart-gps | SBM-PATTERN | accuracy | 2 |")
    assert printed.endswith(f"wrote {out}\n")


def test_figures_go_to_the_results_by_default_and_equal_names_become_paths(
    gps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plots(["traingap", str(gps / "0"), str(gps / "1")]) == 0
    assert (tmp_path / "results/figures/traingap-SBM-PATTERN.png").is_file()
    assert f"| {gps / '1'} | SBM-PATTERN |" in capsys.readouterr().out


def test_what_traingap_refuses(gps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no finished run" in refused(capsys, "traingap", tmp_path)
    message = refused(capsys, "traingap", gps, "--metric", "acuracy")
    assert "unknown metric 'acuracy'. Did you mean 'accuracy'? Allowed: " in message
    assert "unknown ending of --out '.gif'" in refused(capsys, "traingap", gps, "--out", "x.gif")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "record.json").write_bytes((gps / "0" / "record.json").read_bytes())
    message = refused(capsys, "traingap", tmp_path / "run")
    assert f"{tmp_path / 'run' / 'train' / 'stats.json'}: missing" in message


def test_without_matplotlib_one_message_names_the_extra(
    gps: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refused(capsys, "traingap", gps)
    assert "figures need matplotlib" in message
    assert "graphbench-gt[plots]" in message
