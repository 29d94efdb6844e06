"""The last line of main.py: strict JSON of the documented schema, whatever the numbers are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.commands.train import main
from tests.final_line import parse_final_line
from tests.own_graphs import write_rings


def test_one_class_in_validation_is_null_and_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path, [0, 1] * 4 + [0] * 4 + [0, 1] * 2)
    graphs = torch.load("graphs.pt")
    torch.save([{**graph, "edge_atr": torch.zeros(1)} for graph in graphs], "graphs.pt")
    assert main(["--cfg", "rings.yaml", "--repeat", "2"]) == 0
    assert caplog.text.count("'edge_atr' of a graph is not read") == 1, "the data were read twice"
    out, err = capsys.readouterr()
    line = parse_final_line(out.splitlines()[-1])
    told = f"no value for auc (val): {line['undefined']['val']['auc']}"
    assert " ".join(err.split()).count(told) == 1  # below the table of both runs
    for run in ("0", "1"):
        assert Path("results/rings", run, "logging.log").read_text().count(told) == 1
    assert line["val"]["auc"] is None
    assert line["undefined"]["val"]["auc"]
    assert "auc" not in line["undefined"].get("test", {})
    assert line["test"]["auc"] is not None


def test_the_line_of_a_configuration_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_rings(tmp_path)
    (tmp_path / "other.yaml").write_text(path.read_text().replace("split.json", "nowhere.json"))
    assert main(["--cfg", "rings.yaml", "other.yaml"]) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert parse_final_line(first)["n"] == 1
    assert "nowhere.json" in parse_final_line(second)["error"]


def test_an_encoding_as_wide_as_the_largest_graph_asks_needs_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path, sizes=[4] * 12 + [14] * 4)  # the largest graphs are those of the test split
    encoding = ["dataset.node_encoder_name", "LinearNode+ERN", "posenc_ERN.enable", "true", "posenc_ERN.dim_pe", "4"]
    encoding += ["posenc_ERN.model", "Linear"]
    assert main(["--cfg", "rings.yaml", *encoding]) == 0, capsys.readouterr().err
    assert main(["--cfg", "rings.yaml", *encoding, "posenc_ERN.er_dim", "none"]) == 0
    assert "skipped" in capsys.readouterr().err, "the text is the default"
