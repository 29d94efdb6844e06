"""Link tasks, pretrained models and the modes that apply them, from the command line to the files they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphbench.commands.train import main
from graphbench.train.checkpointer import read_checkpoint

HERE = Path(__file__).resolve().parent
CONTACTS = f"""
plugins: [{HERE / "link_graphs_plugin.py"}]
dataset: {{format: contacts, name: x, task: graph, task_type: classification_binary, transductive: false,
  node_encoder: true, node_encoder_name: LinearNode, node_encoder_bn: false, resample_negative: true}}
train: {{batch_size: 4, eval_period: 1}}
model: {{type: GPSModel, loss_fun: cross_entropy, edge_decoding: dot}}
gt: {{layer_type: GCN+Transformer, layers: 1, n_heads: 2, dim_hidden: 16}}
gnn: {{head: inductive_edge, layers_pre_mp: 0, layers_post_mp: 1, dim_inner: 16}}
optim: {{max_epoch: 3, base_lr: 0.01, scheduler: none}}
accelerator: cpu
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "contacts.yaml").write_text(CONTACTS)
    return tmp_path


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code = main(["--cfg", *arguments])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["--cfg", *arguments]) == 2
    return capsys.readouterr().err


@pytest.fixture
def trained(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    return folder / _run(capsys, "contacts.yaml")["run_dir"]


# ---- link tasks ------------------------------------------------------------------------------------------------------


def test_pairs_of_many_graphs_are_learned_and_ranked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _run(capsys, "contacts.yaml", "optim.max_epoch", "15")
    assert line["metric"] == "mrr"
    assert line["test"]["hits@10"] == 1.0
    assert line["test"]["mrr_filt_self"] > 0.9  # equal colours embed alike, and only equal ones are in contact
    assert line["test"]["mrr"] < line["test"]["mrr_filt"] < line["test"]["mrr_filt_self"]
    lines = (folder / line["run_dir"] / "train" / "stats.json").read_text().splitlines()
    assert "mrr" not in json.loads(lines[-1]), "hidden states of training batches are not kept"
    val = (folder / line["run_dir"] / "val" / "stats.json").read_text().splitlines()
    assert {"mrr", "hits@3_filt", "accuracy", "auc"} <= set(json.loads(val[0]))


@pytest.mark.slow
def test_pairs_of_one_graph(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {
        "dataset.format": "one-contact-graph",
        "dataset.task": "link_pred",
        "dataset.transductive": "true",
        "dataset.split_mode": "random",
        "dataset.resample_negative": "false",
        "gnn.head": "default",
        "optim.max_epoch": "40",
    }
    line = _run(capsys, "contacts.yaml", *(text for pair in changes.items() for text in pair))
    assert line["metric"] == "auc"
    assert line["test"]["auc"] > 0.95
    record = json.loads((folder / line["run_dir"] / "record.json").read_text())
    assert record["data"]["sizes"] == {"train": 624, "val": 78, "test": 78}
    assert record["approximation"] is None
    batches = {
        "train.neighbor_sizes": "[5]",
        "train.batch_size": "100",
        "train.eval_period": "15",
    }
    for sampler, evaluation in (("neighbor", "full_batch"), ("neighbor", "neighbor"), ("shadow", "shadow")):
        own = {"train.sampler": sampler, "val.sampler": evaluation, "out_dir": evaluation, "optim.max_epoch": "15"}
        sampled = {**changes, **batches, **own}
        line = _run(capsys, "contacts.yaml", *(text for pair in sampled.items() for text in pair))
        assert line["test"]["auc"] > 0.9
        record = json.loads((folder / line["run_dir"] / "record.json").read_text())
        assert (record["approximation"] is None) == (evaluation == "full_batch")
        assert set(record["approximation_error"]) == (set() if evaluation == "full_batch" else {"val", "test"})
    wrong = {**changes, "train.sampler": "cluster"}
    said = _refused(capsys, "contacts.yaml", *(text for pair in wrong.items() for text in pair))
    assert "in link tasks train.sampler and val.sampler are full_batch, neighbor or shadow" in said


def test_links_are_inferred(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _run(
        capsys, "contacts.yaml", "gnn.head", "infer_links", "dataset.infer_link_label", "edge",
        "dataset.task_type", "classification", "dataset.resample_negative", "false",
    )  # fmt: skip
    assert line["metric"] == "accuracy"
    assert 0 <= line["test"]["accuracy"] <= 1


def test_runs_over_splits_and_folds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _run(
        capsys, "contacts.yaml", "dataset.split_mode", "cv-kfold-4", "run_multiple_splits", "[0, 1, 2, 3]",
        "optim.max_epoch", "1",
    )  # fmt: skip
    assert line["runs"] == ["0", "1", "2", "3"]
    records = [json.loads((folder / "results/contacts" / run / "record.json").read_text()) for run in line["runs"]]
    assert [record["data"]["split_index"] for record in records] == [0, 1, 2, 3]
    assert {record["seed"] for record in records} == {0}
    scores = [s["value"] for r in records for s in r["scores"] if (s["split"], s["name"]) == ("test", "mrr")]
    assert line["test"]["mrr"] == pytest.approx(np.mean(scores))
    assert line["test"]["mrr_std"] == pytest.approx(np.std(scores, ddof=1))
    best = json.loads((folder / "results/contacts/agg/test/best.json").read_text())
    assert best["mrr"] == line["test"]["mrr"]
    assert best["n"] == 4
    assert "exclude each other" in _refused(capsys, "contacts.yaml", "run_multiple_splits", "[0, 1]", "--repeat", "2")


# ---- pretrained ------------------------------------------------------------------------------------------------------


def test_a_pretrained_body_is_frozen_and_a_new_head_learns(
    folder: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = _run(
        capsys, "contacts.yaml", "name_tag", "tuned", "pretrained.dir", str(trained),
        "pretrained.freeze_main", "true",
    )  # fmt: skip
    before, after = (read_checkpoint(each / "ckpt/best.ckpt")["model"] for each in (trained, folder / line["run_dir"]))
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(value, after[name]) is not name.startswith("head."), name
    record = json.loads((folder / line["run_dir"] / "record.json").read_text())
    assert record["params"] == sum(value.numel() for name, value in after.items() if name.startswith("head."))


def test_the_architecture_comes_from_the_pretrained_run(
    folder: Path, trained: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    lines = [line for line in CONTACTS.splitlines() if not line.startswith(("gt:", "gnn:"))]
    (folder / "short.yaml").write_text("\n".join(lines) + "\ngnn: {head: inductive_edge, layers_post_mp: 2}\n")
    line = _run(capsys, "short.yaml", "pretrained.dir", str(trained.parent), "gt.attn_dropout", "0.1")
    stored = (folder / line["run_dir"] / "config.yaml").read_text()
    assert "dim_hidden: 16" in stored
    assert "layer_type: GCN+Transformer" in stored
    log = (folder / line["run_dir"] / "logging.log").read_text()
    assert f"pretrained: {trained}, epoch" in log
    assert "parameters and buffers copied" in log
    assert "command line: gt.attn_dropout is 0.1, in the pretrained run 0.0." in caplog.text
    assert set(read_checkpoint(folder / line["run_dir"] / "ckpt/best.ckpt")["model"]) > {"head.mlp.lin.1.weight"}


def test_pretrained_models_that_cannot_be_used(folder: Path, trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is no run directory" in _refused(capsys, "contacts.yaml", "pretrained.dir", "nowhere")
    wide = ("gt.dim_hidden", "32", "gnn.dim_inner", "32", "name_tag", "wide")
    message = _refused(capsys, "contacts.yaml", "pretrained.dir", str(trained), *wide)
    assert "parameters of other shapes: encoder" in message
    assert not (folder / "results/contacts-wide/0/record.json").exists()
    for mode in ("inference-only", "log-attn-weights"):
        assert "set pretrained.dir" in _refused(capsys, "contacts.yaml", "train.mode", mode)


# ---- modes -----------------------------------------------------------------------------------------------------------


def test_inference_repeats_the_scores_of_the_best_epoch_and_writes_predictions(
    folder: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads((trained / "record.json").read_text())
    expected = {(s["split"], s["name"]): s["value"] for s in record["scores"]}
    line = _run(capsys, "contacts.yaml", "pretrained.dir", str(trained), "train.mode", "inference-only")
    assert line["run_dir"].endswith("contacts-inference-only/0")
    for split in ("val", "test"):
        assert set(line[split]) == {name for part, name in expected if part == split}
        for name, value in line[split].items():
            assert value == pytest.approx(expected[split, name], rel=1e-5), (split, name)
    assert line["best_epoch"] == [record["best_epoch"]]
    written = json.loads((folder / line["run_dir"] / "record.json").read_text())
    assert {score["split"] for score in written["scores"]} == {"train", "val", "test"}
    with np.load(folder / line["run_dir"] / "predictions.npz") as file:
        right = (file["test_pred"][:, 0] > 0) == (file["test_true"] == 1)
    assert right.mean() == pytest.approx(line["test"]["accuracy"])


def test_attention_weights_are_written_per_layer_and_graph(
    folder: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = _run(capsys, "contacts.yaml", "pretrained.dir", str(trained), "train.mode", "log-attn-weights")
    with np.load(folder / line["run_dir"] / "attention.npz") as file:
        layers = {name.split("/")[0] for name in file.files} - {"x", "edge_index"}
        assert len(layers) == 1
        layer = layers.pop()
        for graph in range(4):
            nodes = 6 + (20 + graph) % 7
            assert file[f"x/{graph}"].shape == (nodes, 4)
            assert file[f"edge_index/{graph}"].shape == (2, 2 * nodes)
            assert file[f"edge_index/{graph}"].max() == nodes - 1
            assert file[f"{layer}/{graph}"].shape == (2, nodes, nodes)
            np.testing.assert_allclose(file[f"{layer}/{graph}"].sum(2), 1, rtol=1e-5)
        assert f"x/{4}" not in file.files


def test_a_model_without_attention_has_no_weights_to_write(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(capsys, "contacts.yaml", "gt.layer_type", "GCN+None", "optim.max_epoch", "1")
    message = _refused(
        capsys, "contacts.yaml", "gt.layer_type", "GCN+None", "pretrained.dir", "results/contacts/0",
        "train.mode", "log-attn-weights",
    )  # fmt: skip
    assert "no layer of this model gives its attention weights" in message


def test_submissions_to_ogb_have_one_file_per_hidden_split(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(
        [
            {"edge_index": torch.tensor([[0, 1], [1, 0]]), "x": torch.randn(2, 3), "y": torch.randn(1)}
            for _ in range(30)
        ],
        "graphs.pt",
    )
    changes = {
        "dataset.format": "custom",
        "dataset.custom.path": "graphs.pt",
        "dataset.task_type": "regression",
        "dataset.split_mode": "random",
        "dataset.resample_negative": "false",
        "model.loss_fun": "l1",
        "gnn.head": "graph",
    }
    given = ["contacts.yaml", *(text for pair in changes.items() for text in pair)]
    _run(capsys, *given)
    line = _run(capsys, *given, "pretrained.dir", "results/contacts", "train.mode", "PCQM4Mv2-inference")
    for name in ("test-dev", "test-challenge"):
        with np.load(folder / line["run_dir"] / f"y_pred_pcqm4m-v2_{name}.npz") as file:
            assert file.files == ["y_pred"]
            assert file["y_pred"].shape == (3,)
            assert file["y_pred"].dtype == np.float32


def test_the_standard_mode_is_the_same_loop(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _run(capsys, "contacts.yaml", "train.mode", "standard", "optim.max_epoch", "1", "name_tag", "lightning")
    assert line["n"] == 1
