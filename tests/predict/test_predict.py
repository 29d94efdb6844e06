"""Trained models on new graphs: predictions give the record's test metric, without the data of the training."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import errno
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score
from torch.nn.functional import cross_entropy

import graphbench
from graphbench.config import load_config
from graphbench.console import main
from graphbench.errors import UserError
from graphbench.predict import cli, load_run
from graphbench.predict.embeddings import hidden_states
from graphbench.predict.export import export
from graphbench.predict.held_out import held_out
from graphbench.predict.predictions import Predictions
from graphbench.runs import json_text
from graphbench.runs.record import RunRecord
from graphbench.train import hub
from tests.paths import ROOT

GRAPHS = """\
import torch
from torch_geometric.data import Data

def rings(numbers=range(40)):
    graphs = []
    for number in numbers:
        size = 3 + number % 9
        here = torch.arange(size)
        edges = torch.cat([torch.stack([here, here.roll(-1)]), torch.stack([here.roll(-1), here])], 1)
        x = torch.randn(size, 3, generator=torch.Generator().manual_seed(number))
        graphs.append(Data(x=x, edge_index=edges, y=TARGET))
    return graphs

def test_rings():
    return rings(SPLIT["test"])

SPLIT = {"train": list(range(24)), "val": list(range(24, 30)), "test": list(range(30, 40))}
"""
YAML = """\
_base_: configs/quickstart.yaml
dataset:
  {{format: custom, name: rings, task: {task}, task_type: {task_type}, transductive: False, node_encoder: True,
   node_encoder_name: LinearNode+RWSE, edge_encoder: True, edge_encoder_name: DummyEdge, split_mode: fixed,
   split_file: split.json, custom: {{function: "graphs_{task}_{task_type}.py:rings"}}}}
posenc_LapPE: {{enable: False}}
posenc_RWSE: {{kernel: {{times: [1, 2, 3]}}, dim_pe: 4, model: Linear}}
model: {{loss_fun: {loss}, thresh: 0.4}}
gnn: {{head: {head}, dim_inner: 16}}
gt: {{layer_type: GIN+SFi, dim_hidden: 16, layers: 1}}
optim: {{max_epoch: 2, num_warmup_epochs: 0}}
"""
CASES = {
    "graph classification": ("torch.tensor([size % 3])", "cross_entropy", "default"),
    "graph regression": ("torch.tensor([float(size)])", "l1", "default"),
    "node classification": ("(x[:, 0] > 0).long()", "cross_entropy", "inductive_node"),
}


@pytest.fixture(scope="module", params=CASES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with two trained seeds of a task, entered."""
    folder = tmp_path_factory.mktemp("predict")
    target, loss, head = CASES[request.param]
    task, task_type = request.param.split()
    source = folder / f"graphs_{task}_{task_type}.py"
    source.write_text(GRAPHS.replace("TARGET", target))
    (folder / "rings.yaml").write_text(YAML.format(task=task, task_type=task_type, loss=loss, head=head))
    names: dict[str, Any] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    (folder / "split.json").write_text(json.dumps(names["SPLIT"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        config = graphbench.load_config("rings.yaml", ["print", "file", "num_threads", "1"])
        graphbench.run(config, repeat=2)
        yield task_type, names["test_rings"](), source
    return


def _score(task_type: str, graphs: list[Any], predictions: Any) -> tuple[str, float]:
    y = torch.cat([graph.y.reshape(-1) for graph in graphs]).numpy()
    if task_type == "regression":
        return "mae", mean_absolute_error(y, predictions.values[:, 0])
    return "accuracy", accuracy_score(y, predictions.label)


def test_predictions_give_the_metric_of_the_record(trained: Any) -> None:
    task_type, graphs, source = trained
    moved = source.with_suffix(".moved")
    source.rename(moved)  # the data of the training is not needed
    try:
        for seed in ("0", "1"):
            model = graphbench.load_run(f"results/rings/{seed}")
            predictions = model.predict(graphs, batch_size=3)
            assert predictions.label_threshold == 0.4
            name, value = _score(task_type, graphs, predictions)
            record = json.loads(Path(f"results/rings/{seed}/record.json").read_text())
            [stored] = [s["value"] for s in record["scores"] if (s["split"], s["name"]) == ("test", name)]
            assert value == pytest.approx(stored, rel=1e-5)
    finally:
        moved.rename(source)


def test_runs_together_are_their_mean_with_deviations(trained: Any) -> None:
    _, graphs, _ = trained
    both = graphbench.load_run("results/rings").predict(graphs)
    alone = [graphbench.load_run(f"results/rings/{seed}").predict(graphs) for seed in ("0", "1")]
    torch.testing.assert_close(both.values, (alone[0].values + alone[1].values) / 2)
    torch.testing.assert_close(both.std, torch.stack([each.values for each in alone]).std(0))
    assert alone[0].std is None


@pytest.mark.parametrize("trained", ["graph regression"], indirect=True)
def test_the_folds_of_a_cross_validation_predict_together(trained: Any) -> None:
    _, graphs, _ = trained
    folds = "dataset.split_mode cv-kfold-3 run_multiple_splits [0,1,2] dataset.split_file '' name_tag folds"
    line = graphbench.run(graphbench.load_config("rings.yaml", [*shlex.split(folds), "num_threads", "1"]))
    model = graphbench.load_run(line["run_dir"])
    assert model.predict(graphs).runs.shape == (3, len(graphs), 1)


def test_the_command_writes_files_and_an_export_predicts_the_same(
    trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task_type, graphs, source = trained
    data = f"{source.name}:test_rings"
    for ending in (".csv", ".npz"):
        assert main(["predict", "results/rings/0", data, "--out", str(tmp_path / f"a{ending}")]) == 0
    assert main(["export", "results/rings/0", "--out", str(tmp_path / "model")]) == 0
    assert main(["predict", str(tmp_path / "model"), data, "--out", str(tmp_path / "b.csv")]) == 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    with np.load(tmp_path / "a.npz") as file:
        arrays = dict(file)
    assert [int(row["graph"]) for row in rows] == arrays["graph"].tolist()
    nodes = sum(graph.num_nodes for graph in graphs)
    assert len(rows) == (nodes if "node" in rows[0] else len(graphs))
    what = "value_0" if task_type == "regression" else "probability_0"
    assert [float(row[what]) for row in rows] == pytest.approx(arrays[what].tolist())
    assert load_run(tmp_path / "model").info == load_run("results/rings/0").info
    assert (tmp_path / "model" / hub.PARAMETERS).is_file()
    card = (tmp_path / "model/README.md").read_text()
    assert "# rings, run 0" in card
    assert "| test | " in card
    with pytest.raises(UserError, match="exists already"):
        export("results/rings/0", tmp_path / "model")
    assert cli.main([str(tmp_path / "none"), data]) == 2
    for wrong in (["--batch_size", "0"], ["--device", "cuda:99"], ["--device", "gpuu"]):
        with pytest.raises(SystemExit, match="2"):
            cli.main(["results/rings/0", data, *wrong])
    assert main(["export", "results/rings", "--out", str(tmp_path / "two")]) == 2
    assert "has 2 runs; name one of them" in capsys.readouterr().err


def test_embeddings_are_what_the_head_reads_whatever_the_batches(
    trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, graphs, _ = trained
    model = graphbench.load_run("results/rings/0")
    [head] = [part for name, part in model.models[0].named_modules() if name == "head.mlp"]
    states = model.embeddings(graphs)
    read = states.nodes if states.graphs is None else states.graphs
    assert read is not None
    torch.testing.assert_close(head(read), model.predict(graphs).runs[0])
    assert [len(rows) for rows in states.per_graph] == [graph.num_nodes for graph in graphs]
    assert torch.equal(states.node, torch.cat([torch.arange(graph.num_nodes) for graph in graphs]))
    if states.graphs is not None:
        torch.testing.assert_close(states.graphs, torch.stack([rows.sum(0) for rows in states.per_graph]))

    exact, found = model.models[0].double(), []
    for size in (3, 10):
        batches = [model.batch_of(graphs[first : first + size]) for first in range(0, 10, size)]
        doubled = [
            batch.replace(x=batch.x.double(), pe={name: each.double() for name, each in batch.pe.items()})
            for batch in batches
        ]
        found.append(hidden_states(exact, doubled))
        layer = hidden_states(exact, doubled, "layers.0")
        assert torch.equal(layer.nodes, found[-1].nodes), "the head reads what the last block returns"
        assert layer.graphs is None
    for ours, other in zip(*([each.nodes, each.graphs] for each in found), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-12, atol=1e-13)
    model.models[0].float()

    command = ["predict", "results/rings/0", "test", "--out", str(tmp_path / "a.csv")]
    assert main([*command, "--embeddings", str(tmp_path / "a.npz")]) == 0
    with np.load(tmp_path / "a.npz") as file:
        arrays = dict(file)
    assert set(arrays) == {"nodes", "graph", "node"} | ({"graphs"} if states.graphs is not None else set())
    torch.testing.assert_close(torch.from_numpy(arrays["nodes"]), states.nodes)  # of the same ten graphs
    model.predict(graphs).write(tmp_path / "b.csv")
    of_split, new = ([*csv.DictReader((tmp_path / name).read_text().splitlines())] for name in ("a.csv", "b.csv"))
    targets = torch.cat([graph.y.reshape(-1) for graph in graphs]).tolist()
    assert [float(row.pop("y")) for row in of_split] == targets
    assert of_split == [row | {"graph": str(30 + int(row["graph"]))} for row in new], "numbers in the data set"
    assert capsys.readouterr().out.startswith(f"wrote {tmp_path / 'a.npz'}: Embeddings(head: nodes (69, 16)")
    before = set(Path().iterdir())
    assert main(["predict", "results/rings/0", "test", "--embeddings", str(tmp_path / "a.npz")]) == 0
    assert set(Path().iterdir()) == before, "predictions are written where they are asked for"


@pytest.mark.parametrize("trained", ["graph regression"], indirect=True)
def test_what_embeddings_and_attention_weights_refuse(trained: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, graphs, _ = trained
    model, two = graphbench.load_run("results/rings/0"), graphbench.load_run("results/rings")
    for ask in (two.embeddings, two.attention_weights, lambda _: two.predict("test")):
        with pytest.raises(UserError, match=r"results/rings: has 2 runs; name one of them, e.g. results/rings/0\."):
            ask(graphs)
    with pytest.raises(UserError, match=r"unknown split 'tset'. Did you mean 'test'\?"):
        model.embeddings("tset")
    with pytest.raises(UserError, match=r"unknown module 'layer.0'. Did you mean 'layers.0'\?"):
        model.embeddings(graphs, "layer.0")
    with pytest.raises(UserError, match=r"module layers is not called in predictions"):
        model.embeddings(graphs, "layers")
    with pytest.raises(UserError, match=r"gives \d+ rows for 69 nodes of 10 graphs: of neither"):
        model.embeddings(graphs, "edge_encoder")
    with pytest.raises(ValueError, match=r"head.mlp has one row per graph"):
        _ = model.embeddings(graphs, "head.mlp").per_graph
    for wrong, said in (
        (["--module", "head"], "--module needs --embeddings FILE"),
        (["--embeddings", "a.csv"], ".npz"),
    ):
        with contextlib.suppress(SystemExit):
            assert cli.main(["results/rings/0", "test", *wrong]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("trained", ["graph regression"], indirect=True)
def test_attention_weights_are_by_layer_and_graph_whatever_the_batches(trained: Any) -> None:
    _, graphs, _ = trained
    model = graphbench.load_run("results/rings/0")
    [[name, flows]] = model.attention_weights(graphs).items()
    assert name == "layers.0.branches.1.part"
    assert [each.shape for each in flows] == [(2, graph.num_nodes, graph.num_nodes) for graph in graphs]
    for ours, one in zip(flows, model.attention_weights("test", batch_size=1)[name], strict=True):
        torch.testing.assert_close(ours, one)


@pytest.mark.parametrize("trained", ["graph classification"], indirect=True)
def test_sequences_of_words_are_no_predictions_of_graphs(
    trained: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, graphs, _ = trained
    model = graphbench.load_run("results/rings/0")
    words = dataclasses.replace(model, info=dataclasses.replace(model.info, task_type="subtoken_prediction"))
    store = model.examples(graphs).store
    for ask in (words.predict, words.calibrate, lambda _: words.of_store(store)):
        with pytest.raises(UserError, match=r"results/rings/0: its model predicts sequences of words"):
            ask(graphs)
    assert words.embeddings(graphs).graphs is not None
    monkeypatch.setattr("graphbench.predict.trained.load_run", lambda folder: words)
    assert cli.main(["results/rings/0", "nowhere.pt"]) == 2
    assert "sequences of words" in capsys.readouterr().err, "before the graphs are read"
    assert cli.main(["results/rings/0", "test", "--embeddings", "states.npz"]) == 0
    assert Path("states.npz").is_file()


@pytest.mark.parametrize("trained", ["graph classification"], indirect=True)
def test_categories_that_the_training_could_not_have_had_are_refused(trained: Any) -> None:
    _, (graph, *_), _ = trained
    model = graphbench.load_run("results/rings/0")
    info = dataclasses.replace(model.info, vocabularies={"node": (9, 5, 9)})
    model = dataclasses.replace(model, info=info)

    def ask(value: float, dtype: torch.dtype) -> None:
        x = torch.zeros(graph.num_nodes, 3, dtype=dtype)
        x[-1, 1] = value
        model.examples([{"edge_index": graph.edge_index, "x": x}])

    for dtype in (torch.int64, torch.float32):
        ask(4, dtype)
        for wrong in (-1, 5):
            with pytest.raises(UserError, match=rf"column 1 of the node features has {wrong}; .* from 0 to 4\.$"):
                ask(wrong, dtype)
    with pytest.raises(UserError, match=r"column 1 of the node features has 3.7;"):
        ask(3.7, torch.float32)


def _one_graph(folder: Path, *changes: str) -> str:
    """Trains on a graph of ``one.py`` in the folder; returns the folder of the run."""
    Path(folder, "one.py").write_text(
        "import torch\nfrom torch_geometric.data import Data\n"
        "def graph():\n"
        "    draw = torch.Generator().manual_seed(0)\n"
        "    return Data(x=torch.randn(60, 5, generator=draw), y=torch.arange(60) % 3,\n"
        "                edge_index=torch.randint(60, (2, 200), generator=draw))\n"
    )
    options = "dataset.format custom dataset.name one dataset.task node dataset.task_type classification"
    options += " dataset.transductive True dataset.custom.function one.py:graph dataset.split_mode random"
    options += " dataset.node_encoder_name LinearNode dataset.edge_encoder False posenc_LapPE.enable False"
    options += " gnn.head node gt.layer_type GCN+SGFormer optim.max_epoch 1 model.loss_fun cross_entropy print file"
    line = graphbench.run(load_config(ROOT / "configs/quickstart.yaml", [*options.split(), *changes]))
    assert line is not None
    return str(line["run_dir"])


def test_a_model_that_reads_targets_of_training_nodes_reads_them_in_predictions_of_its_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = _one_graph(tmp_path, "model.type", "UniMP", "gt.UniMP.classes", "3")
    model = graphbench.load_run(run)
    record = RunRecord.read(Path(run, "record.json"))
    for part in ("val", "test"):
        predictions = model.predict(part)
        [loss] = [score.value for score in record.scores if (score.split, score.name) == (part, "loss")]
        assert cross_entropy(predictions.runs[0], predictions.y).item() == pytest.approx(loss, rel=1e-4)
    torch.testing.assert_close(held_out(model).predictions.runs, model.predict("val").runs)


LINKS = "dataset.task link_pred gnn.head link_pred"


@pytest.mark.parametrize("encoded", ["", "posenc_LapPE.enable True dataset.node_encoder_name LinearNode+LapPE"])
def test_links_of_one_graph_are_learned_and_predicted_without_those_that_are_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, encoded: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = _one_graph(tmp_path, *f"{LINKS} {encoded}".split())
    model = graphbench.load_run(run)
    record = RunRecord.read(Path(run, "record.json"))
    for part in ("val", "test"):
        predictions = model.predict(part)
        [score] = [score.value for score in record.scores if (score.split, score.name) == (part, "auc")]
        assert roc_auc_score(predictions.y, predictions.probability[:, 1]) == pytest.approx(score, abs=1e-9)
    torch.testing.assert_close(held_out(model).predictions.runs, model.predict("val").runs)
    assert len(model.embeddings("val").nodes) == 60
    names: dict[str, Any] = {}
    exec(Path("one.py").read_text(), names)
    graph = names["graph"]()
    linked = graph.edge_index[:, :1]
    asked = torch.cat([linked, linked + 1], dim=1).clamp(max=59)
    new = model.predict({"x": graph.x, "edge_index": graph.edge_index, "edge_label_index": asked}).columns()
    assert (new["source"].tolist(), new["target"].tolist(), new["graph"].tolist()) == (*asked.tolist(), [0, 0])
    assert re.search(r"[12] of the 2 pairs that are asked about are edges of their graphs: the model sees", caplog.text)
    with pytest.raises(UserError, match="the graphs ask about no pairs of nodes"):
        model.predict([graph])


def test_a_split_of_one_graph_is_some_of_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = _one_graph(tmp_path)
    model = graphbench.load_run(run)
    names: dict[str, Any] = {}
    exec(Path("one.py").read_text(), names)
    graph = names["graph"]()
    whole, part = model.embeddings([graph]), model.embeddings("val")
    assert whole.nodes is not None
    assert part.nodes is not None
    assert 0 < len(part.nodes) < 60
    torch.testing.assert_close(part.nodes, whole.nodes[part.node])
    predictions = model.predict("val")
    torch.testing.assert_close(predictions.runs[0], model.predict([graph]).runs[0][part.node])
    assert torch.equal(predictions.y, graph.y[predictions.node])
    again = load_config(Path(run, "config.yaml"), ["train.mode", "inference-only", "pretrained.dir", run])
    with np.load(Path(graphbench.run(again)["run_dir"], "predictions.npz")) as file:
        assert torch.equal(torch.from_numpy(file["val_node"]), predictions.node)
        assert not file["val_graph"].any()
        assert file["val_pred"] == pytest.approx(predictions.runs[0].numpy(), abs=1e-6)
    examples = model.examples("val")
    assert model.examples(examples) is examples, "made once, for all that follows"
    assert torch.equal(model.predict(examples).values, model.predict("val").values)
    with pytest.raises(UserError, match=r"gives its attention weights.* Linear attention, .* never form it\.$"):
        model.attention_weights("val")


def test_an_exported_folder_has_its_plug_ins_and_asks_before_it_imports_them(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, graphs, _ = trained
    run, model = tmp_path / "rings", tmp_path / "model"
    Path("own").mkdir(exist_ok=True)
    Path("own/kept.py").write_text("KEPT = True\n")
    Path("kept_package").mkdir()
    Path("kept_package/__init__.py").write_text("from kept_package import inner\n")
    Path("kept_package/inner.py").write_text("import beside_kept\n")
    Path("beside_kept.py").write_text("BESIDE = True\n")
    plugins = "[own/kept.py, kept_package, filelock]"
    options = ["print", "file", "num_threads", "1", "out_dir", str(tmp_path), "plugins", plugins]
    graphbench.run(graphbench.load_config("rings.yaml", options))
    with monkeypatch.context() as asked:
        asked.delenv("GRAPHBENCH_ALLOW_PLUGINS")
        with pytest.raises(UserError, match=r"kept.py\), and importing it runs it. If you trust it, set GRAPH"):
            export(run, model)
    export(run, str(model))
    told = "without filelock: installed or outside the project, and needed where it is opened"
    assert f"{model}: {told}" in capsys.readouterr().out
    assert "Needs filelock, not in this folder." in (model / "README.md").read_text()
    ours = ["kept_package", "kept_package.inner", "beside_kept"]
    for folder in (run / "0", model):
        assert (folder / "own/kept.py").read_text() == "KEPT = True\n"
        assert (folder / "kept_package/inner.py").read_text() == "import beside_kept\n"
        assert (folder / "beside_kept.py").is_file()
        assert not (folder / "filelock").exists()
    for name in ours:
        monkeypatch.delitem(sys.modules, name)
    shutil.rmtree("kept_package")
    Path("beside_kept.py").unlink()
    predictions = load_run(model).predict(graphs)
    assert [sys.modules[name].__file__ for name in ours] == [
        str(model / path) for path in ("kept_package/__init__.py", "kept_package/inner.py", "beside_kept.py")
    ]
    predictions.write(str(tmp_path / "a.csv"))
    assert (tmp_path / "a.csv").is_file()
    assert repr(load_run("results/rings")).startswith("TrainedModel(results/rings/0: 2 runs, ")


def test_an_export_that_fails_leaves_nothing_in_the_way(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "results/rings/0", "--out", str(tmp_path / "model")]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy", full)
        assert main(arguments) == 3
    assert f"run failed: {tmp_path / 'model'}: No space left on device" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main(arguments) == 0
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert len(modes) == 1, "who may read the card may read the parameters"


def test_an_exported_folder_can_be_trained_further(trained: Any, tmp_path: Path) -> None:
    assert main(["export", "results/rings/0", "--out", str(tmp_path / "model")]) == 0
    stored = torch.load("results/rings/0/ckpt/best.ckpt", weights_only=True)["model"]
    keys = {"pretrained.dir": str(tmp_path / "model"), "pretrained.reset_prediction_head": "False"}
    keys |= {"pretrained.freeze_main": "True", "out_dir": str(tmp_path / "runs"), "optim.max_epoch": "1"}
    graphbench.run(
        graphbench.load_config("rings.yaml", ["print", "file", *(text for pair in keys.items() for text in pair)])
    )
    tuned = torch.load(tmp_path / "runs/rings/0/ckpt/best.ckpt", weights_only=True)["model"]
    body = [name for name in stored if not name.startswith("head.")]
    assert body
    assert all(torch.equal(tuned[name], stored[name]) for name in body)
    assert not all(torch.equal(tuned[name], stored[name]) for name in stored)


def test_graphs_that_do_not_look_like_those_of_the_training_are_refused(trained: Any, tmp_path: Path) -> None:
    _, graphs, _ = trained
    model = graphbench.load_run("results/rings/0")
    wide = graphs[0].clone()
    wide.x = torch.zeros(wide.num_nodes, 5)
    with pytest.raises(UserError, match="x has 5 columns, the graphs of the training had 3"):
        model.predict([wide])
    with pytest.raises(UserError, match="received int"):
        model.predict(7)
    graph = networkx.path_graph(3)
    networkx.set_node_attributes(graph, [0.0, 1.0, 2.0], "x")
    assert len(model.predict(graph).graph) in (1, 3)
    with pytest.raises(UserError, match="no finished run with a checkpoint"):
        graphbench.load_run(tmp_path)
    with pytest.raises(UserError, match=r"there is no folder results/ring\. Did you mean 'results/rings'\?"):
        graphbench.load_run("results/ring")
    with pytest.raises(UserError, match=r"there is no folder results/rings/0/record\.json\.$"):
        graphbench.load_run("results/rings/0/record.json")
    other = tmp_path / "mixed"
    shutil.copytree("results/rings", other)
    text = (other / "1/config.yaml").read_text()
    (other / "1/config.yaml").write_text(text.replace("max_epoch: 2", "max_epoch: 3"))
    config = load_config(other / "1/config.yaml")
    record = RunRecord.read(other / "1/record.json")
    assert record is not None
    dataclasses.replace(record, config_hash=config.hash, settings=config.settings).write(other / "1/record.json")
    with pytest.raises(UserError, match="of another configuration"):
        graphbench.load_run(other)


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda run, _: _edit(run / "config.yaml", "max_epoch: 2", "max_epoch: 3"),
            "trained with: optim.max_epoch 2 there and 3 here",
        ),
        (lambda run, _: (run / "record.json").write_text("{"), "record.json is missing or damaged"),
        (lambda run, _: (run / "data_info.json").write_text(""), "data_info.json: damaged, or of another run"),
        (lambda run, _: _edit(run / "data_info.json", '"node_in": 3', '"node_in": 4'), "its checksum is"),
        (lambda run, other: _of_other_data(other, run), "it is of other data than the run"),
        (lambda run, other: shutil.copy(other / "model.safetensors", run), r"another run \(1 there, 0 here\)"),
        (lambda run, _: _flip(run / "model.safetensors"), "damaged or not of this run.*checksum"),
    ],
)
def test_files_of_an_exported_run_that_are_damaged_or_of_another_run_are_refused(
    trained: Any, tmp_path: Path, damage: Callable[[Path, Path], object], message: str
) -> None:
    for run in ("0", "1"):
        export(f"results/rings/{run}", tmp_path / run)
    load_run(tmp_path / "0")
    damage(tmp_path / "0", tmp_path / "1")
    with pytest.raises(UserError, match=message):
        load_run(tmp_path / "0")


def _of_other_data(source: Path, target: Path) -> None:
    noted = json_text.loads_with_checksum((source / "data_info.json").read_text())
    (target / "data_info.json").write_text(json_text.dumps_with_checksum({**noted, "data": "of others"}))


def test_the_model_of_another_run_and_a_run_that_is_there_twice_are_refused(trained: Any, tmp_path: Path) -> None:
    runs = tmp_path / "rings"
    shutil.copytree("results/rings", runs)
    shutil.copy(runs / "1/ckpt/best.ckpt", runs / "0/ckpt/best.ckpt")
    with pytest.raises(UserError, match=r"best.ckpt is damaged or no checkpoint of this run.*run \(1 there, 0 here\)"):
        load_run(runs / "0")
    shutil.rmtree(runs / "0")
    shutil.copytree(runs / "1", runs / "0")
    with pytest.raises(UserError, match="one run is there twice"):
        load_run(runs)


def test_kinds_of_targets(tmp_path: Path) -> None:
    graph = torch.arange(2)
    binary = Predictions("classification_binary", torch.tensor([[[2.0], [-1.0]]]), graph)
    assert binary.label.tolist() == [1, 0]
    torch.testing.assert_close(binary.probability.sum(1), torch.ones(2))
    scores = torch.tensor([[[2.0, -1.0], [-1.0, 0.5]]])
    labels = Predictions("classification_multilabel", scores, graph)
    assert labels.label.tolist() == [[1, 0], [0, 1]]
    assert dataclasses.replace(labels, label_threshold=0.2).label.tolist() == [[1, 1], [1, 1]]
    assert dataclasses.replace(binary, label_threshold=0.2).label.tolist() == [1, 1]
    assert dataclasses.replace(binary, label_threshold=0.9).label.tolist() == [0, 0]
    assert "label" not in labels.columns()
    dataclasses.replace(labels, y=torch.tensor([[1.0, float("nan")], [0.0, 1.0]])).write(tmp_path / "labels.csv")
    dataclasses.replace(binary, y=torch.tensor([-1, 0])).write(tmp_path / "binary.csv")
    for name, cells in (("labels", ["0,1.0,,1,0,0.8", "1,0.0,1.0,0,1,0.2"]), ("binary", ["0,,1,", "1,0,0,"])):
        head, *rows = (tmp_path / f"{name}.csv").read_text().splitlines()
        assert head.startswith(
            {"labels": "graph,y_0,y_1,label_0,label_1,probability_0,", "binary": "graph,y,label,"}[name]
        )
        assert all(map(str.startswith, rows, cells)), (rows, "what is missing is an empty cell")
    with pytest.raises(ValueError, match="no probabilities"):
        _ = Predictions("regression", torch.zeros(1, 2, 1), graph).probability
    with pytest.raises(UserError, match="allowed endings"):
        binary.write(tmp_path / "a.xlsx")
