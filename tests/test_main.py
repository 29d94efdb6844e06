"""The command line as a user sees it: exit codes, messages, last line."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from graphbench import experiment
from graphbench.commands.train import main
from graphbench.errors import RunFailed
from graphbench.run_inputs import RunInputs
from graphbench.single_run import RunGroup
from graphbench.train.fabric import Fabric
from graphbench.train.turns import Turns
from tests.final_line import parse_final_line
from tests.own_graphs import write_rings
from tests.paths import ROOT

TINY = (
    "dataset.SBM.train_graphs 8 dataset.SBM.val_graphs 4 dataset.SBM.test_graphs 4 gt.layers 1 gt.n_heads 2 "
    "gt.dim_hidden 24 gnn.dim_inner 24 optim.max_epoch 2 train.batch_size 4"
).split()


def call(
    *arguments: str, cwd: Path, program: Sequence[str] = (str(ROOT / "main.py"),), **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_dry_run_needs_no_data_and_prints_one_json_line(tmp_path: Path) -> None:
    done = call("--cfg", str(ROOT / "configs/quickstart.yaml"), "--dry_run", cwd=tmp_path, GRAPHBENCH_DATA="")
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert list(line) == ["config", "dataset", "metric", "params", "layers"]
    assert line["layers"] == ["CustomGatedGCN+SFi"] * 2
    assert line["metric"] == "accuracy-SBM"
    assert not list(tmp_path.iterdir()), "a dry run leaves nothing behind"


def test_dry_run_says_which_keys_have_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quickstart", "posenc_HKdiagSE.enable", "True", "--dry_run"]) == 0
    printed = capsys.readouterr()
    assert "posenc_HKdiagSE.enable has no effect" in printed.err
    assert len(printed.out.splitlines()) == 1


def test_dry_run_of_several_files_prints_a_line_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("gt:\n  layrs: 3\n")
    assert main(["--cfg", str(ROOT / "configs/nodes/sgformer-cora.yaml"), str(bad), "--dry_run"]) == 2
    good, error = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert good["params"] > 0
    assert good["dataset"] == "Cora"
    assert "gt.layers" in error["error"]
    assert error["config"] == "bad"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cfg", "nowhere.yaml"], "error: no such configuration file: 'nowhere.yaml'"),
        (["--cfg", "{quickstart}", "gt.layrs", "3"], "error: command line: unknown configuration key 'gt.layrs'"),
        (["--cfg", "{quickstart}", "gt.layer_type", "CustomGatedGCN+Transformer", "gt.n_heads", "7"], "gt.n_heads"),
        (["--cfg", "{quickstart}", "gt.layer_norm", "true"], "gt.layer_norm and gt.batch_norm exclude each other"),
        (["--cfg", "{quickstart}", "gt.dim_hidden", "48"], "gt.dim_hidden and gnn.dim_inner are the same width"),
        (["--cfg", "{quickstart}", "posenc_RWSE.enable", "false"], "posenc_RWSE.enable is false"),
        (["--cfg", "{quickstart}", "posenc_RWSE.kernel.times_func", "open('x')"], "must look like range(1, 17)"),
        (["--cfg", "{quickstart}", "posenc_LapPE.dim_pe", "60"], "the encodings take"),
        (["--cfg", "{quickstart}", "dataset.edge_encoder", "false"], "CustomGatedGCN reads edge features"),
        (
            ["--cfg", "{quickstart}", "gt.layer_type", "GCN+SANLayer"],
            "is a complete layer and cannot be joined with others",
        ),
        (["--cfg", "{quickstart}", "dataset.task", "link_pred"], "dataset.task"),
        (["--cfg", "{quickstart}", "metric_best", "mae"], "metric_best"),
        (["--cfg", "{quickstart}", "model.loss_fun", "mse"], "model.loss_fun"),
        (["--cfg", "{quickstart}", "dataset.split_mode", "cv-kfold-ten"], "dataset.split_mode"),
        (["--cfg", "{quickstart}", "dataset.name", "PATERN"], "Did you mean 'PATTERN'"),
        (["--cfg", "{quickstart}", "--repeat", "0"], "--repeat must be at least 1"),
        (["--cfg", "{quickstart}", "gnn.act", "rellu"], "did you mean 'relu'?"),
        (["sgformer-cora", "gt.layer_type", "GCN+None", "--dry_run"], "no trainable parameter in 'attention_branch'"),
        (["quickstart", "optim.filter_lr", "0.1", "--dry_run"], "this model has no implicit filters"),
    ],
)
def test_wrong_input_is_one_message_and_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main([each.format(quickstart=ROOT / "configs/quickstart.yaml") for each in arguments])
    except SystemExit as ended:  # argparse's own messages
        code = ended.code
    said = capsys.readouterr()
    assert code == 2, said.err
    assert not said.out
    assert message in said.err
    assert not list(tmp_path.iterdir()), "wrong input leaves no trace"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            "dataset.node_encoder_name Atom",
            "line: Atom reads 9 columns of node features, rings has 3. Linear",
        ),
        ("dataset.node_encoder_name TypeDictNode", "num_types (default): TypeDictNode reads whole numbers, categories"),
        (
            "gnn.head node",
            "line: the head node predicts for every node, the task of rings is one",
        ),
        ("gt.dropout 1.5", "error: command line: gt.dropout: dropout must lie in [0, 1], received 1.5"),
        ("dataset.custom.path graph.pt", "line: dataset.custom.path: there is no file graph.pt"),
        (
            "dataset.custom.function a.py:b",
            "line: dataset.custom.function: give dataset.custom.path or data",
        ),
        (
            "metric_best auc",
            "line: the epoch is chosen by auc of the validation examples, which has no value for",
        ),
        (
            "dataset.task link_pred",
            "16 graphs ask about no pairs of nodes ('edge_label_index', with targets 'edge_label')",
        ),
        ("num_threads 100000", "line: num_threads must be at most 1024, received 100000"),
        (
            "model.loss_fun mse",
            "line: model.loss_fun: the loss mse is for regression tasks, this one is binary. Allowed: cross_entropy, ",
        ),
        (
            "model.loss_fun weighted_cross_entropy train.batch_size 1",
            "line: train.batch_size must be at least 2 for model.loss_fun weighted_cross_entropy, which is 0",
        ),
    ],
)
def test_what_does_not_fit_own_data_is_told_before_training(
    overrides: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path, [0, 1] * 4 + [0] * 4 + [0, 1] * 2)
    assert main(["--cfg", "rings.yaml", *overrides.split()]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "results").exists(), "wrong input leaves no trace"


@pytest.mark.parametrize(("stated", "code"), [("5", 2), ("6", 0)])
def test_a_table_of_categories_that_the_data_exceeds_is_told_before_training(
    stated: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path)
    graphs = [each | {"x": torch.arange(len(each["x"]))[:, None]} for each in torch.load("graphs.pt")]
    torch.save(graphs, "graphs.pt")
    size = ["dataset.node_encoder_name", "TypeDictNode", "dataset.node_encoder_num_types", stated]
    assert main(["--cfg", "rings.yaml", *size, "optim.max_epoch", "1"]) == code
    told = "line: dataset.node_encoder_num_types is 5, but rings has nodes of category 5, counted from 0. Leave it out"
    assert (told in capsys.readouterr().err) == bool(code)


def test_wrong_input_ends_the_program_with_code_2(tmp_path: Path) -> None:
    done = call("--cfg", "nowhere.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_run_ends_with_table_and_json_line_and_is_skipped_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--cfg", str(ROOT / "configs/quickstart.yaml"), "--repeat", "2", *TINY]
    first = call(*arguments, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    line = parse_final_line(first.stdout.splitlines()[-1])
    assert line["runs"] == ["0", "1"]
    assert line["metric"] == "accuracy-SBM"
    assert line["dataset"] == "SBM-PATTERN"
    assert 0 <= line["test"]["accuracy-SBM"] <= 1
    assert line["test"]["accuracy-SBM_std"] >= 0
    run_dir = tmp_path / line["run_dir"]
    record = json.loads((run_dir / "0" / "record.json").read_text())
    assert record["status"] == "finished"
    assert (run_dir / "agg" / "test" / "best.json").is_file()

    before = (run_dir / "0" / "record.json").stat().st_mtime_ns
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["test"] == line["test"]
    assert (run_dir / "0" / "record.json").stat().st_mtime_ns == before

    other = [*arguments, "gt.dropout", "0.3"]
    assert main(other) == 2
    assert "--overwrite" in capsys.readouterr().err

    assert main([*other, "--overwrite"]) == 0
    kept = [path for path in run_dir.iterdir() if path.name.startswith("0.")]
    assert len(kept) == 1
    assert json.loads((kept[0] / "record.json").read_text()) == record


@pytest.mark.parametrize("end", [RunFailed("the loss is nan"), KeyboardInterrupt()])
def test_means_are_of_all_that_finished_where_a_command_ends_early(
    end: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path)
    train = experiment.work_on

    def third_ends(inputs: RunInputs, group: RunGroup, fabric: Fabric) -> Turns[None]:
        if inputs.run.run_id == 2:
            raise end
        return train(inputs, group, fabric)

    monkeypatch.setattr(experiment, "work_on", third_ends)
    assert main(["rings.yaml", "--repeat", "1"]) == 0
    assert main(["rings.yaml", "--repeat", "3"]) != 0
    assert json.loads(Path("results/rings/agg/test/best.json").read_text())["runs"] == ["0", "1"]


@pytest.mark.parametrize(
    ("task_type", "y", "metric", "said"),
    [
        ("regression", [0.5, math.nan, *[0.25] * 14], "mae", "names node 1, which has no target (y is [nan])"),
        ("classification", [0, -1, *[1] * 14], "accuracy", "names node 1, which has no target (y is -1)"),
    ],
)
def test_nodes_without_target_are_in_no_split(
    task_type: str, y: list[float], metric: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path)
    node = torch.arange(len(y))
    graph = {"x": torch.randn(len(y), 3), "edge_index": torch.stack([node, node.roll(1)]), "y": torch.tensor(y)}
    torch.save([graph], "graphs.pt")
    loss = "l1" if task_type == "regression" else "cross_entropy"
    nodes = (
        f"dataset.task node dataset.task_type {task_type} dataset.transductive true gnn.head node "
        f"dataset.custom.metric {metric} model.loss_fun {loss} train.batch_size 1"
    ).split()
    assert main(["--cfg", "rings.yaml", *nodes]) == 2
    assert f"the part 'train' of the split {said}" in capsys.readouterr().err
    drawn = ["dataset.split_file", ""]
    for mode in ("random", "cv-kfold-4"):
        assert main(["--cfg", "rings.yaml", *nodes, *drawn, "dataset.split_mode", mode, "name_tag", mode]) == 0
    assert main(["--cfg", "rings.yaml", *nodes, *drawn, "dataset.split_mode", "standard"]) == 2
    assert "'standard' is no protocol of this data set. Allowed: cv-kfold-K, " in capsys.readouterr().err
    Path("split.json").write_text(json.dumps({"train": [0, 2, 3], "val": [4, 5], "test": [6, 7]}))
    assert main(["--cfg", "rings.yaml", *nodes]) == 0
