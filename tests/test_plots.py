"""``scripts/plots.py`` on real runs: the numbers behind each figure, the files, the messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from graphbench import factory
from graphbench.cli import main as train
from graphbench.config import load_config
from graphbench.plots import attention, canvas, node_matrix, traingap
from graphbench.plots.cli import main as plots
from graphbench.plots.trained import read_trained
from graphbench.runs.record import RunRecord
from graphbench.train.checkpointer import read_checkpoint
from tests.test_main import ROOT, TINY

SEEDS = ("0", "1")
SIGNATURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def _train(folder: Path, tag: str, *overrides: str, config: str = "quickstart.yaml", repeat: str = "2") -> Path:
    code = train(
        ["--cfg", str(ROOT / "configs" / config), "--repeat", repeat, *TINY, "name_tag", tag, "accelerator", "cpu",
         "out_dir", str(folder / "results"), "dataset.dir", str(folder / "datasets"), *overrides]
    )  # fmt: skip
    assert code == 0
    return folder / "results" / f"{Path(config).stem}-{tag}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plots")


@pytest.fixture(scope="module")
def gps(home: Path) -> Path:
    return _train(
        home, "gps", "gt.layer_type", "CustomGatedGCN+Transformer", "optim.max_epoch", "3", "train.metrics_period", "1"
    )


@pytest.fixture(scope="module")
def sfi(home: Path) -> Path:
    """Friction strong enough for many zeros."""
    return _train(
        home, "sfi", "gt.layer_type", "CustomGatedGCN+SFi", "gt.layers", "2", "gt.SFi.lam", "1000", "optim.base_lr",
        "0.01", "optim.max_epoch", "3", "train.metrics_period", "1",
    )  # fmt: skip


def _lines(run: Path, split: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / split / "stats.json").read_text().splitlines()]


def _refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert plots([str(each) for each in arguments]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert "wrote" not in out
    return err


# ---- traingap --------------------------------------------------------------------------------------------------------


def test_gaps_are_those_of_the_files_and_errors_count_the_other_way(gps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for metric, sign in ((None, 1), ("auc", 1), ("loss", -1)):
        gap = traingap.read_gap(gps, metric)
        name = metric or "accuracy-SBM"
        assert (gap.label, gap.dataset, gap.metric) == ("quickstart-gps", "SBM-PATTERN", name)
        assert gap.epochs.tolist() == [0, 1, 2]
        expected = [
            [sign * (a[name] - b[name]) for a, b in zip(_lines(gps / s, "train"), _lines(gps / s, "test"), strict=True)]
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
            lines = _lines(gps / seed, split)
            if (seed, split) == ("1", "train"):
                lines[1]["accuracy"] = None  # what NaN is written as
                del lines[2]["auc"]
            target = tmp_path / "copy" / seed / split / "stats.json"
            target.parent.mkdir(parents=True)
            target.write_text("".join(json.dumps(line) + "\n" for line in lines))
        (tmp_path / "copy" / seed / "record.json").write_bytes((gps / seed / "record.json").read_bytes())
    assert traingap.read_gap(tmp_path / "copy", "accuracy").epochs.tolist() == [0, 2]
    assert traingap.read_gap(tmp_path / "copy", "auc").epochs.tolist() == [0, 1]


def test_a_panel_per_data_set_with_a_mean_and_a_band_per_configuration(home: Path, gps: Path, sfi: Path) -> None:
    other = _train(home, "one", "optim.max_epoch", "2", "gt.dim_hidden", "24", config="synthetic/cluster-gps.yaml",
                   repeat="1")  # fmt: skip
    gaps = [traingap.read_gap(each, "loss") for each in (gps, other, sfi)]
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
    assert "no finished run" in _refused(capsys, "traingap", tmp_path)
    message = _refused(capsys, "traingap", gps, "--metric", "acuracy")
    assert "unknown metric 'acuracy'. Did you mean 'accuracy'? Allowed: " in message
    assert "unknown ending of --out '.gif'" in _refused(capsys, "traingap", gps, "--out", "x.gif")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "record.json").write_bytes((gps / "0" / "record.json").read_bytes())
    message = _refused(capsys, "traingap", tmp_path / "run")
    assert f"{tmp_path / 'run' / 'train' / 'stats.json'}: missing" in message


def test_without_matplotlib_one_message_names_the_extra(
    gps: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = _refused(capsys, "traingap", gps)
    assert "figures need matplotlib" in message
    assert ".[plots]" in message


# ---- attention -------------------------------------------------------------------------------------------------------


def test_patterns_before_and_after_and_their_zeros_are_those_of_stats_json(sfi: Path) -> None:
    record = RunRecord.read(sfi / "0" / "record.json")
    shares = []
    for graph in range(4):
        run = read_trained(sfi / "0", "val", graph)
        patterns = attention.read_patterns(run.model, run.batch)
        assert [each.layer for each in patterns] == [f"layers.{i}.branches.1.part" for i in range(2)]
        for each in patterns:
            before, after = each.weights["before: softmax(s)"], each.weights["after: sparse flow"]
            assert before.shape == after.shape == (2, run.num_nodes, run.num_nodes)
            np.testing.assert_allclose(before.sum(2), 1, rtol=1e-5)
            assert (before > 0).all()
            assert (after.sum(2) < 1).all()
        shares.append(np.mean([each.zero_share("after: sparse flow") for each in patterns]))
    assert 0.02 < np.mean(shares) < 0.98
    assert np.mean(shares) == pytest.approx(record.score("val", "zero_flow"), abs=1e-3)
    assert run.epoch == record.best_epoch
    assert record.score("train", "zero_flow") is None
    assert all(0 < line["zero_flow"] < 1 for split in ("val", "test") for line in _lines(sfi / "0", split))


def test_the_model_is_that_of_the_best_epoch_and_the_untrained_one_that_of_the_seed(sfi: Path) -> None:
    run = read_trained(sfi / "1", "test", 0)
    best = read_checkpoint(sfi / "1" / "ckpt" / "best.ckpt")["model"]
    assert all(torch.equal(value, best[name]) for name, value in run.model.state_dict().items())
    other = read_trained(sfi / "0", "test", 0)
    weight = "layers.0.branches.1.part.q_friction.weight"
    assert not torch.equal(run.initial.state_dict()[weight], other.initial.state_dict()[weight])
    assert not torch.equal(run.initial.state_dict()[weight], best[weight])
    again = read_trained(sfi / "1", "test", 0)
    assert torch.equal(run.initial.state_dict()[weight], again.initial.state_dict()[weight])


def test_white_is_exactly_zero_and_nothing_else(sfi: Path) -> None:
    run = read_trained(sfi / "0", "val", 1)
    patterns = attention.read_patterns(run.model, run.batch)
    order, borders = node_matrix.node_order(run.num_nodes, run.edge_index, "community")
    assert sorted(order.tolist()) == list(range(run.num_nodes))
    assert all(0 < border < run.num_nodes for border in borders)
    with canvas.style():
        panels = [axes for axes in attention.draw(patterns, [1, 0], 1, order, borders).axes if axes.images]
    shown = [each for layer in (1, 0) for each in patterns[layer].weights.values()]
    assert len(panels) == len(shown) == 4
    for axes, weights in zip(panels, shown, strict=True):
        image = axes.images[0]
        white = (image.to_rgba(image.get_array())[..., :3] == 1).all(-1)
        np.testing.assert_array_equal(white, weights[1][np.ix_(order, order)] == 0)
        share = 100 * white.mean()
        assert axes.get_title().splitlines()[-1] == f"{share:.3g} % zero"
        assert image.norm.vmin == panels[0].images[0].norm.vmin, "one scale for all panels"


def test_layers_of_different_kinds_have_their_own_views() -> None:
    """As ``gt.layer_type: CustomGatedGCN+SFi+Transformer`` makes them."""
    one, half = np.ones((1, 3, 3)), np.tri(3)[None]
    patterns = [attention.Pattern("sfi", {"before": one, "after": half}), attention.Pattern("softmax", {"all": one})]
    with canvas.style():
        panels = [axes for axes in attention.draw(patterns, [0, 1], 0, np.arange(3)).axes if axes.images]
    assert [axes.get_title().splitlines()[0] for axes in panels] == ["before", "after", "all"]
    assert attention.table(patterns).splitlines()[2:] == [
        "| 0 | sfi | 0.0000 | 0.3333 | - |",
        "| 1 | softmax | - | - | 0.0000 |",
    ]


def test_communities_stay_together() -> None:
    # Two cliques whose nodes alternate, and a node without edges.
    sides = [[0, 2, 4, 6, 8], [1, 3, 5, 7]]
    edges = [(a, b) for side in sides for a in side for b in side if a != b] + [(0, 1), (1, 0)]
    order, borders = node_matrix.node_order(10, np.array(edges).T, "community")
    assert order.tolist() == [*sides[0], *sides[1], 9]
    assert borders == [5, 9]
    assert node_matrix.node_order(10, np.array(edges).T, "natural")[0].tolist() == list(range(10))


def test_the_attention_figure_from_the_command_line(
    sfi: Path, gps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plots(["attention", str(sfi / "0"), "--untrained", "--order", "community"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (tmp_path / "results/figures/attention-quickstart-sfi-0.png").stat().st_size > 10_000
    assert lines[0].startswith("quickstart-sfi 0, epoch ")
    cells = [each.strip() for each in lines[4].split("|")[1:-1]]
    assert cells[:2] == ["1", "layers.1.branches.1.part"]
    assert float(cells[3]) == 0.0
    assert float(cells[4]) > 0.0
    assert plots(["attention", str(gps / "0"), "--split", "test", "--graph", "3", "--out", "dense.pdf"]) == 0
    assert capsys.readouterr().out.splitlines()[3] == "| 0 | layers.0.branches.1.part | 0.0000 |"
    assert (tmp_path / "dense.pdf").read_bytes().startswith(b"%PDF")


def test_what_attention_refuses(
    home: Path, sfi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "error: " + str(tmp_path) + " is no run directory" in _refused(capsys, "attention", tmp_path)
    assert "--graph must lie in 0 .. 3 (val), received 4" in _refused(capsys, "attention", sfi, "--graph", "4")
    assert "--layer must lie in 0 .. 1, received 2" in _refused(capsys, "attention", sfi, "--layer", "0", "2")
    assert "--head must lie in 0 .. 1, received 7" in _refused(capsys, "attention", sfi, "--head", "7")
    with monkeypatch.context() as smaller:
        smaller.setattr(attention, "LARGEST", 20)
        assert "nodes; patterns of up to 20 nodes are drawn" in _refused(capsys, "attention", sfi)
    local = _train(home, "local", "gt.layer_type", "CustomGatedGCN+None", "optim.max_epoch", "1", repeat="1")
    capsys.readouterr()
    assert "no layer of this model gives its attention weights" in _refused(capsys, "attention", local)
    assert not list(tmp_path.iterdir()), "nothing is written for wrong input"


def test_one_graph_whose_nodes_are_the_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.test_modes import CONTACTS

    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(CONTACTS)
    changes = "dataset.format one-contact-graph dataset.task link_pred dataset.transductive true gnn.head default"
    changes += " dataset.split_mode random dataset.resample_negative false gt.layer_type GCN+SFi gt.SFi.lam 20"
    assert train(["--cfg", "one.yaml", *changes.split()]) == 0
    run = read_trained(tmp_path / "results/one/0", "test", 0)
    (pattern,) = attention.read_patterns(run.model, run.batch, run.position)
    record = RunRecord.read(tmp_path / "results/one/0/record.json")
    assert record.score("val", "zero_flow") == record.score("test", "zero_flow")
    assert 0 < record.score("test", "zero_flow") < 1
    assert pattern.weights["after: sparse flow"].shape == (2, 40, 40)
    # The noise of this data set differs from reading to reading; its edges do not.
    asked = {"train": True, "val": False, "test": False}
    config = load_config(tmp_path / "results/one/0/config.yaml")
    loaded = factory.read_data(config)
    pairs = loaded.store.edge_sets["label"].index
    edges = set(map(tuple, run.edge_index.T.tolist()))
    for name, rows in factory.build_splits(config, loaded, 0).parts().items():
        present = {tuple(pair) in edges for pair in pairs[:, rows].T.tolist()}
        assert (True in present) is asked[name], "edges that are asked about in evaluation are hidden"
