"""``scripts/plots.py surrogate`` on a real run: the matrices, the table, the file, the messages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from graphbench.commands.train import main as train
from graphbench.plots import surrogate
from graphbench.plots.cli import main as plots
from graphbench.plots.trained import read_trained
from tests.test_main import ROOT, TINY


def _train(folder: Path, tag: str, *overrides: str) -> Path:
    code = train(
        ["--cfg", str(ROOT / "configs/quickstart.yaml"), *TINY, "name_tag", tag, "accelerator", "cpu",
         "out_dir", str(folder / "results"), "dataset.dir", str(folder / "datasets"), *overrides]
    )  # fmt: skip
    assert code == 0
    return folder / "results" / f"quickstart-{tag}" / "0"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surrogate")


@pytest.fixture(scope="module")
def geco(home: Path) -> Path:
    return _train(home, "geco", "gt.layer_type", "CustomGatedGCN+GECO", "gt.layers", "2")


def test_what_is_drawn_is_what_the_layer_computes(geco: Path) -> None:
    run = read_trained(geco, "val", 1)
    found = surrogate.read_surrogates(run.model, run.batch, 5, run.position)
    assert [surrogate.layer for surrogate in found] == ["layers.0.branches.1.part", "layers.1.branches.1.part"]
    layer, seen = run.model.layers[0].branches[1].part, {}
    layer.register_forward_hook(lambda module, args, out: seen.update(h=args[0]))
    with torch.no_grad():
        run.model(run.batch)
        (matrices,) = layer.surrogate_attention(seen["h"], None, run.batch)
    assert found[0].channels == len(matrices)
    np.testing.assert_allclose(found[0].one, matrices[5].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0].mean, matrices.abs().mean(0).numpy(), rtol=1e-4, atol=1e-6)


def test_sizes_by_kind_of_pair() -> None:
    mean = np.array([[4.0, 2.0, 1.0], [1.0, 4.0, 1.0], [1.0, 1.0, 4.0]])
    found = surrogate.Surrogate("layer", 1, mean, mean)
    sizes = found.sizes(np.array([[1], [0]]))  # one edge, from node 1 to node 0
    assert sizes == pytest.approx({"diagonal": 4 / (19 / 9), "neighbours": 2 / (19 / 9), "others": 1 / (19 / 9)})
    assert np.isnan(found.sizes(np.empty((2, 0), dtype=int))["neighbours"])


@pytest.mark.slow
def test_a_figure_and_its_table(geco: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = {}
    for name, options in {"natural": [], "untrained": ["--untrained", "--order", "community", "--layer", "1"]}.items():
        out = tmp_path / f"{name}.png"
        assert plots(["surrogate", str(geco), "--graph", "2", "--out", str(out), *options]) == 0
        assert out.read_bytes().startswith(b"\x89PNG")
        drawn[name] = capsys.readouterr().out
    assert "| layer | module | channels | diagonal | neighbours | others |" in drawn["natural"]
    assert "| 1 | layers.1.branches.1.part |" in drawn["natural"]
    assert "as initialised" in drawn["untrained"]
    assert drawn["natural"].splitlines()[3] != drawn["untrained"].splitlines()[3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--channel", "999"], r"--channel must lie in 0 .. \d+, received 999"),
        (["--layer", "2"], "--layer must lie in 0 .. 1, received 2"),
        (["--graph", "9999"], r"--graph must lie in 0 .. \d+ \(val\), received 9999"),
    ],
)
def test_messages(geco: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plots(["surrogate", str(geco), *options]) == 2
    error = capsys.readouterr().err
    assert re.match(f"error: {message}", error), error
    assert len(error.splitlines()) == 1


def test_models_and_graphs_that_cannot_be_drawn(
    geco: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _train(home, "sg", "gt.layer_type", "CustomGatedGCN+SGFormer", "gt.layers", "1")
    capsys.readouterr()
    assert plots(["surrogate", str(other)]) == 2
    assert "no layer of this model has a surrogate attention matrix; GECO does" in capsys.readouterr().err
    monkeypatch.setattr(surrogate, "MAX_NODES", 3)
    assert plots(["surrogate", str(geco)]) == 2
    assert "matrices of up to 3 nodes are drawn" in capsys.readouterr().err
