"""``plots.py focal`` on real runs of FFGT on a few generated graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.paths import ROOT

pytest.importorskip("matplotlib")

from graphbench.commands.train import main as train
from graphbench.plots import canvas, focal
from graphbench.plots.cli import main as plots
from graphbench.runs.record import RunRecord

CONFIG = "configs/synthetic/ffgt-sbm-pattern-p016.yaml"
SMALL = "gt.layers 1 gt.dim_hidden 8 gnn.dim_inner 8 optim.max_epoch 1 optim.num_warmup_epochs 0 accelerator cpu"
GRAPHS = "dataset.SBM.train_graphs 8 dataset.SBM.val_graphs 2 dataset.SBM.test_graphs 2"


def _run(folder: Path, tag: str, *overrides: object, repeat: int = 1) -> Path:
    arguments = [*SMALL.split(), *GRAPHS.split(), "name_tag", tag, "out_dir", folder, "dataset.dir", folder / "data"]
    arguments += overrides
    assert train(["--cfg", str(ROOT / CONFIG), "--repeat", str(repeat), *map(str, arguments)]) == 0
    return folder / f"ffgt-sbm-pattern-p016-{tag}"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vanilla and two focal lengths, GRPE beside a local layer on sparser graphs, and a model without such heads."""
    folder = tmp_path_factory.mktemp("records")
    _run(folder, "full", "gt.FFGTLayer.focal_heads", 0)
    for length in (1, 3):
        _run(folder, f"fl{length}", "gt.FFGTLayer.focal_length", length, repeat=2 if length == 3 else 1)
    grpe = {"gt.layer_type": "GINE+GRPE", "dataset.edge_encoder": "true", "dataset.edge_encoder_name": "DummyEdge"}
    _run(folder, "grpe", "dataset.SBM.p", 0.1, *(value for pair in grpe.items() for value in pair))
    _run(folder, "other", "gt.layer_type", "GCN+None")
    return folder


def test_a_point_is_what_the_records_of_its_seeds_say(records: Path) -> None:
    folder = records / "ffgt-sbm-pattern-p016-fl3"
    point = focal.read_point(folder)
    assert (point.panel, point.metric, point.line) == ("SBM-PATTERN, p = 0.16", "accuracy-SBM", "Vanilla")
    assert (point.length, point.position) == (3, "3")
    assert point.scores == tuple(RunRecord.read(folder / seed / "record.json").score("test") for seed in "01")
    assert focal.read_point(records / "ffgt-sbm-pattern-p016-full").position == "full"
    other = focal.read_point(records / "ffgt-sbm-pattern-p016-grpe")
    assert (other.panel, other.line, other.position) == ("SBM-PATTERN, p = 0.10", "GRPE + GINE", "full")
    assert focal.read_point(records / "ffgt-sbm-pattern-p016-other") is None


def test_panels_and_points(records: Path) -> None:
    found = [point for point in map(focal.read_point, sorted(records.glob("ffgt-*"))) if point]
    with canvas.style():
        figure = focal.draw(sorted(found, key=lambda point: point.panel, reverse=True))
    dense, sparse = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["SBM-PATTERN, p = 0.16", "SBM-PATTERN, p = 0.10"]
    assert [text.get_text() for text in dense.get_xticklabels()] == ["full", "1", "3"]
    assert [text.get_text() for text in sparse.get_xticklabels()] == ["full"]
    points = {point.position: point for point in found if point.panel.endswith("0.16")}
    full, lengths = (container.lines[0] for container in dense.containers)
    np.testing.assert_allclose(full.get_ydata(orig=False), points["full"].scores)
    np.testing.assert_allclose(lengths.get_xdata(orig=False), [1, 3])
    np.testing.assert_allclose(lengths.get_ydata(orig=False), [np.mean(points[at].scores) for at in ("1", "3")])


def test_the_command(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "focal.png"
    assert plots(["focal", "--records", str(records), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert out.stat().st_size > 1000
    assert "| SBM-PATTERN, p = 0.16 | Vanilla | full | accuracy-SBM |" in printed
    assert "left out" in printed
    assert plots(["focal", str(records / "ffgt-sbm-pattern-p016-other")]) == 2
    twice = [str(records / "ffgt-sbm-pattern-p016-fl1")] * 2
    assert plots(["focal", "--out", str(out), *twice]) == 0  # the same folder is one point
    assert plots(["focal"]) == 2
    stored = ROOT / "results/measured/records/ffgt-sbm-small.jsonl"
    capsys.readouterr()
    assert plots(["focal", "--records", str(stored), "--out", str(out)]) == 0
    assert "| SBM-PATTERN, p = 0.16 | Vanilla | 2 | accuracy-SBM | 0.8327 ± 0.0036 | 3 |" in capsys.readouterr().out
