"""``plots.py attention`` on real runs, and what it shares with other figures of matrices between nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.factory.data import build_splits, read_data
from graphbench.plots import attention, canvas, node_matrix
from graphbench.plots.cli import main as plots
from graphbench.plots.trained import read_trained
from graphbench.runs.record import RunRecord
from graphbench.train.checkpointer import read_checkpoint
from tests.plots.quickstart_runs import refused, stats, train


@pytest.mark.slow
def test_patterns_before_and_after_and_their_zeros_are_those_of_stats_json(sfi: Path) -> None:
    record = RunRecord.read(sfi / "0" / "record.json")
    shares = []
    for graph in range(4):
        run = read_trained(sfi / "0", "val", graph)
        patterns = attention.read_patterns(run.model, run.batch)
        assert [pattern.layer for pattern in patterns] == [f"layers.{i}.branches.1.part" for i in range(2)]
        for pattern in patterns:
            before, after = pattern.weights["before: softmax(s)"], pattern.weights["after: sparse flow"]
            assert before.shape == after.shape == (2, run.num_nodes, run.num_nodes)
            np.testing.assert_allclose(before.sum(2), 1, rtol=1e-5)
            assert (before > 0).all()
            assert (after.sum(2) < 1).all()
        shares.append(np.mean([pattern.zero_fraction("after: sparse flow") for pattern in patterns]))
    assert 0.02 < np.mean(shares) < 0.98
    assert np.mean(shares) == pytest.approx(record.score("val", "zero_flow"), abs=1e-3)
    assert run.epoch == record.best_epoch
    assert record.score("train", "zero_flow") is None
    assert all(0 < line["zero_flow"] < 1 for split in ("val", "test") for line in stats(sfi / "0", split))


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
    shown = [weights for layer in (1, 0) for weights in patterns[layer].weights.values()]
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


@pytest.mark.parametrize("nodes", [1, 4, 9])
def test_numbers_of_nodes_are_whole(nodes: int) -> None:
    pattern = attention.Pattern("layers.0", {"attention": np.full((1, nodes, nodes), 1 / nodes)})
    figure = attention.draw([pattern], [0], 0, np.arange(nodes))
    figure.draw_without_rendering()
    numbers = [label.get_text() for label in (*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels())]
    assert any(numbers)
    assert not [text for text in numbers if "." in text]


def test_the_attention_figure_from_the_command_line(
    sfi: Path, gps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plots(["attention", str(sfi / "0"), "--untrained", "--order", "community"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (tmp_path / "results/figures/attention-quickstart-sfi-0.png").stat().st_size > 10_000
    assert lines[0].startswith("quickstart-sfi 0, epoch ")
    cells = [cell.strip() for cell in lines[4].split("|")[1:-1]]
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
    assert "error: " + str(tmp_path) + " is no run directory" in refused(capsys, "attention", tmp_path)
    assert "--graph must lie in 0 .. 3 (val), received 4" in refused(capsys, "attention", sfi, "--graph", "4")
    assert "--layer must lie in 0 .. 1, received 2" in refused(capsys, "attention", sfi, "--layer", "0", "2")
    assert "--head must lie in 0 .. 1, received 7" in refused(capsys, "attention", sfi, "--head", "7")
    with monkeypatch.context() as smaller:
        smaller.setattr(attention, "MAX_NODES", 20)
        assert "nodes; patterns of up to 20 nodes are drawn" in refused(capsys, "attention", sfi)
    local = train(home, "local", "gt.layer_type", "CustomGatedGCN+None", "optim.max_epoch", "1", repeat="1")
    capsys.readouterr()
    said = refused(capsys, "attention", local)
    assert "no layer of this model gives its attention weights" in said
    assert "one of yours that inherits graphbench.contract.HasAttentionWeights" in said
    assert not list(tmp_path.iterdir()), "nothing is written for wrong input"


def test_one_graph_whose_nodes_are_the_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.test_modes import CONTACTS

    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(CONTACTS)
    changes = "dataset.format one-contact-graph dataset.task link_pred dataset.transductive true gnn.head default"
    changes += " dataset.split_mode random dataset.resample_negative false gt.layer_type GCN+SFi gt.SFi.lam 20"
    assert main(["--cfg", "one.yaml", *changes.split()]) == 0
    run = read_trained(tmp_path / "results/one/0", "test", 0)
    (pattern,) = attention.read_patterns(run.model, run.batch, run.position)
    record = RunRecord.read(tmp_path / "results/one/0/record.json")
    assert record.score("val", "zero_flow") == record.score("test", "zero_flow")
    assert 0 < record.score("test", "zero_flow") < 1
    assert pattern.weights["after: sparse flow"].shape == (2, 40, 40)
    # The noise of this data set differs from reading to reading; its edges do not.
    asked = {"train": True, "val": False, "test": False}
    config = load_config(tmp_path / "results/one/0/config.yaml")
    loaded = read_data(config)
    pairs = loaded.store.edge_sets["label"].index
    edges = set(map(tuple, run.edge_index.T.tolist()))
    for name, rows in build_splits(config, loaded, 0).parts().items():
        present = {tuple(pair) in edges for pair in pairs[:, rows].T.tolist()}
        assert (True in present) is asked[name], "edges that are asked about in evaluation are hidden"
