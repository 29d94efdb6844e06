"""``plots.py layers`` on real runs of SGFormer on small random graphs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.paths import ROOT

pytest.importorskip("matplotlib")

from graphbench.commands.train import main as train
from graphbench.plots import canvas, layers
from graphbench.plots.cli import main as plots
from graphbench.runs.record import RunRecord

CONFIG = "configs/synthetic/sgformer-erdos-renyi.yaml"
SMALL = "gt.dim_hidden 8 gnn.dim_inner 8 optim.max_epoch 2 train.eval_period 1 accelerator cpu".split()


def _run(folder: Path, tag: str, *overrides: object, repeat: int = 2) -> Path:
    arguments = [*SMALL, "name_tag", tag, "out_dir", folder, "dataset.dir", folder / "data", *overrides]
    assert train(["--cfg", str(ROOT / CONFIG), "--repeat", str(repeat), *map(str, arguments)]) == 0
    return folder / f"sgformer-erdos-renyi-{tag}"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two depths, with and without self-loop, and softmax attention; another data set with one depth."""
    folder = tmp_path_factory.mktemp("records")
    for depth in (1, 2):
        for loop in ("true", "false"):
            keys = {"dataset.ErdosRenyi.nodes": 256, "gt.layers": depth, "gt.SGFormer.self_loop": loop}
            _run(folder, f"l{depth}-{loop}", *(value for pair in keys.items() for value in pair))
    _run(folder, "softmax", "dataset.ErdosRenyi.nodes", 256, "gt.layer_type", "GCN+Transformer", repeat=1)
    _run(folder, "other", "dataset.ErdosRenyi.nodes", 300, repeat=1)
    _run(folder, "local", "dataset.ErdosRenyi.nodes", 300, "gt.layer_type", "GCN+None", repeat=1)
    return folder


def _scores(folder: Path, seeds: Sequence[int] = (0, 1)) -> list[float]:
    return [RunRecord.read(folder / str(seed) / "record.json").score("test") for seed in seeds]


def test_a_point_is_what_the_records_of_its_seeds_say(records: Path) -> None:
    folder = records / "sgformer-erdos-renyi-l2-false"
    point = layers.read_depth(folder)
    assert (point.dataset, point.metric, point.layers) == ("ErdosRenyi-256", "accuracy", 2)
    assert point.line == "SGFormer without self-loop"
    assert point.scores == tuple(_scores(folder))
    assert point.seconds == tuple(
        RunRecord.read(folder / str(seed) / "record.json").time_per_epoch for seed in (0, 1)
    )  # fmt: skip
    assert layers.read_depth(records / "sgformer-erdos-renyi-l1-true").line == "SGFormer"
    assert layers.read_depth(records / "sgformer-erdos-renyi-softmax").line == "softmax attention"
    assert layers.read_depth(records / "sgformer-erdos-renyi-local") is None
    assert layers.read_depth(records / "data") is None


def test_a_panel_per_data_set_with_bars_over_seeds(records: Path) -> None:
    found = [depth for depth in map(layers.read_depth, sorted(records.glob("sgformer-*"))) if depth]
    with canvas.style():
        figure = layers.draw(found)
        only = layers.draw(found, times=False)
    assert len(only.axes) == 2
    scores, other, times, _ = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["ErdosRenyi-256", "ErdosRenyi-300", "", ""]
    assert scores.get_ylabel() == "test accuracy"
    assert times.get_ylabel() == "s per epoch"
    assert times.get_ylim()[0] == 0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "SGFormer",
        "SGFormer without self-loop",
        "softmax attention",
    ]
    line, _, (bars,) = scores.containers[0].lines
    np.testing.assert_allclose(line.get_xdata(orig=False), [1, 2], atol=0.1)
    expected = [_scores(records / f"sgformer-erdos-renyi-l{depth}-true") for depth in (1, 2)]
    np.testing.assert_allclose(line.get_ydata(orig=False), np.mean(expected, axis=1))
    lengths = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, 2 * np.std(expected, axis=1, ddof=1), atol=1e-12)
    assert len(other.containers) == 1
    for axes in figure.axes:  # lines are shifted sideways, and whole numbers stay inside
        low, high = axes.get_xlim()
        assert axes.get_xticks().size
        assert all(low < tick < high for tick in axes.get_xticks())
    assert scores.get_xticks().tolist() == [1, 2]


def test_the_figure_from_the_command_line(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plots(["layers", "--records", str(records)]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "results/figures/layers.png").stat().st_size > 10_000
    scores = _scores(records / "sgformer-erdos-renyi-l1-true")
    mean, spread = np.mean(scores), np.std(scores, ddof=1)
    assert f"| ErdosRenyi-256 | SGFormer | 1 | accuracy | {mean:.4f} ± {spread:.4f} |" in printed
    assert printed.splitlines()[2].startswith("| ErdosRenyi-256 | SGFormer | 1 |")
    assert f"left out, without a finished run or without attention: {records / 'sgformer-erdos-renyi-local'}" in printed
    two = [str(records / f"sgformer-erdos-renyi-l{depth}-true") for depth in (2, 1)]
    assert plots(["layers", *two, "--scores_only", "--out", "two.pdf"]) == 0
    assert capsys.readouterr().out.count("| ErdosRenyi-256 |") == 2


def test_the_entries_of_a_sweep(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = tmp_path / "figure.yaml"
    sweep.write_text(
        "sweep: {name: figure, seeds: 2}\ngroups:\n"
        f"  - configs: [{ROOT / CONFIG}]\n    label: SGFormer\n    variants:\n"
        "      - {name_tag: l1-true, gt.layers: 1}\n      - {name_tag: l2-true, gt.layers: 2}\n"
        "      - {name_tag: l3-true, gt.layers: 3}\n"
    )
    command = ["layers", "--sweep", str(sweep), "--records", str(records), "--out", str(tmp_path / "sweep.png")]
    assert plots(command) == 0
    printed = capsys.readouterr().out
    assert [line.split("|")[3].strip() for line in printed.splitlines()[2:4]] == ["1", "2"]
    assert (
        f"left out, without a finished run or without attention: {records / 'sgformer-erdos-renyi-l3-true'}" in printed
    )


def test_what_layers_refuses(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: object) -> str:
        assert plots(["layers", "--out", str(tmp_path / "a.png"), *map(str, arguments)]) == 2
        return capsys.readouterr().err

    assert "error: no runs: name folders of configurations, --sweep FILE, or" in refused()
    assert f"--records: {tmp_path / 'none'} is no folder" in refused("--records", tmp_path / "none")
    local = records / "sgformer-erdos-renyi-local"
    assert f"no finished run of a model with attention layers in {local}." in refused(local)
    twin = tmp_path / "twin"
    shutil.copytree(records / "sgformer-erdos-renyi-l1-true", twin)
    message = refused(records / "sgformer-erdos-renyi-l1-true", twin)
    assert "sgformer-erdos-renyi-l1-true and twin are both SGFormer with 1 layers on ErdosRenyi-256" in message
    (twin / "config.yaml").write_text("gt: 3")
    assert f"{twin}: no gt.layer_type, gt.layers in the configuration of its runs." in refused(twin)
    (twin / "config.yaml").write_text("3")
    assert f"{twin / 'config.yaml'}: missing, or not the configuration of a run." in refused(twin)
