"""A run is what it was made of: other data, splits, plug-ins, seeds or weights are refused, never mixed or reused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.factory.data import read_data
from graphbench.run_inputs import RunInputs, data_inputs
from graphbench.runs import json_text
from graphbench.runs.aggregate import aggregate
from graphbench.runs.planned import Run
from graphbench.runs.split_text import split_texts
from graphbench.sweeps.cli import main as sweep

BASE = """
dataset: {format: custom, name: coins, task: TASK, task_type: classification_binary, transductive: TRANSDUCTIVE,
  split_mode: MODE, node_encoder: true, node_encoder_name: LinearNode, node_encoder_bn: false, custom: {path: data.pt}}
train: {batch_size: 8, eval_period: 1}
model: {type: GPSModel, loss_fun: cross_entropy}
gt: {layer_type: GCN+None, layers: 1, n_heads: 1, dim_hidden: 8}
gnn: {head: HEAD, layers_pre_mp: 0, layers_post_mp: 1, dim_inner: 8}
optim: {max_epoch: 2, base_lr: 0.01, scheduler: none}
accelerator: cpu
"""


def _yaml(**words: str) -> str:
    text = BASE
    for word, value in words.items():
        text = text.replace(word, value)
    return text


GRAPHS = _yaml(TASK="graph", TRANSDUCTIVE="false", MODE="random", HEAD="graph")
NODES = _yaml(TASK="node", TRANSDUCTIVE="true", MODE="standard", HEAD="node")


def write_graphs(seed: int = 0, count: int = 40) -> None:
    """Graphs of four nodes whose labels are coin tosses."""
    draw = torch.Generator().manual_seed(seed)
    ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
    graphs = [
        {"edge_index": ring, "x": torch.randn(4, 3, generator=draw), "y": torch.tensor([number % 2])}
        for number in torch.randperm(count, generator=draw).tolist()
    ]
    torch.save(graphs, "data.pt")


def write_nodes(nodes: int = 60, masked: int | None = None, splits: int = 10) -> None:
    """One ring with coin tosses and some splits of its nodes."""
    draw = torch.Generator().manual_seed(1)
    here = torch.arange(nodes)
    edges = torch.stack([torch.cat([here, here.roll(1)]), torch.cat([here.roll(1), here])])
    part = torch.stack([torch.randperm(masked or nodes, generator=draw) % 3 for _ in range(splits)], 1)
    masks = {f"{name}_mask": part == code for code, name in enumerate(("train", "val", "test"))}
    features = torch.randn(nodes, 8, generator=draw)
    torch.save([{"edge_index": edges, "x": features, "y": torch.arange(nodes) % 2, **masks}], "data.pt")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coins.yaml").write_text(GRAPHS)
    (tmp_path / "nodes.yaml").write_text(NODES)
    write_graphs()
    return tmp_path


class Commands:
    """The command line, called in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *arguments: str) -> dict[str, Any]:
        code = main(["--cfg", *arguments])
        out, err = self._capsys.readouterr()
        assert code == 0, err
        return json.loads(out.splitlines()[-1])

    def refused(self, *arguments: str) -> str:
        assert main(["--cfg", *arguments]) == 2
        message = self._capsys.readouterr().err.strip().splitlines()[-1]
        assert message.startswith("error: ")
        return message


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def record_of(run: str) -> dict[str, Any]:
    return json.loads(Path("results", run, "record.json").read_text())


def score(run: str, name: str = "accuracy") -> float:
    return next(s["value"] for s in record_of(run)["scores"] if (s["split"], s["name"]) == ("test", name))


# ---- skipping, repeating, resuming -----------------------------------------------------------------------------------


def test_exchanged_data_are_neither_skipped_nor_averaged(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    before = record_of("coins/0")
    write_graphs(seed=5)
    for arguments in ((), ("--repeat", "4")):
        message = commands.refused("coins.yaml", *arguments)
        assert "results/coins/0: holds a run (finished) of another data" in message
        assert before["data"]["fingerprint"][:12] in message
        assert "--overwrite" in message
    assert record_of("coins/0") == before
    assert not (folder / "results/coins/1").exists()
    write_graphs()
    assert commands.run("coins.yaml", "--repeat", "2")["n"] == 2


def test_runs_on_other_data_are_in_no_mean(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    write_graphs(seed=5)
    commands.run("coins.yaml", "seed", "1")
    result = aggregate(folder / "results/coins")
    assert list(result.left_out.values()) == ["other data"]
    assert json.loads((folder / "results/coins/agg/test/best.json").read_text())["runs"] == ["1"]


def test_an_interrupted_run_does_not_resume_on_other_data(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    path = folder / "results/coins/0/record.json"
    content = json.loads(path.read_text())
    del content["checksum"]
    path.write_text(json_text.dumps_with_checksum(content | {"status": "interrupted"}))
    write_graphs(seed=5)
    assert "holds a run (interrupted) of another data" in commands.refused("coins.yaml")
    write_graphs()
    commands.run("coins.yaml")
    assert record_of("coins/0")["resumed"] == 1


def test_another_split_of_the_same_sizes_is_refused(folder: Path, commands: Commands) -> None:
    def write_split(first: int) -> None:
        order = np.roll(np.arange(40), first).tolist()
        Path("split.json").write_text(json.dumps({"train": order[:20], "val": order[20:30], "test": order[30:]}))

    fixed = ("coins.yaml", "dataset.split_mode", "fixed", "dataset.split_file", "split.json")
    write_split(0)
    commands.run(*fixed, "--repeat", "2")
    write_split(7)
    assert "of another split 0 (" in commands.refused(*fixed)
    assert "of another split 0 (" in commands.refused(*fixed, "--repeat", "3")
    commands.run(*fixed, "seed", "2")
    assert json.loads((folder / "results/coins/agg/test/best.json").read_text())["runs"] == ["2"]
    split = json.loads(Path("split.json").read_text())
    Path("split.json").write_text(json.dumps([split, {**split, "val": split["test"], "test": split["val"]}]))
    assert commands.run(*fixed, "run_multiple_splits", "[0, 1]", "name_tag", "both")["n"] == 2
    assert "split_index 2 does not exist. Allowed: 0 .. 1" in commands.refused(*fixed, "dataset.split_index", "2")


def test_an_edited_plugin_is_refused_and_the_same_one_is_not(
    folder: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_plugin(text: str, name: str = "mine.py") -> None:
        Path(name).write_text(text)

    write_plugin("SCALE = 1\n")
    commands.run("coins.yaml", "plugins", "[mine.py]")
    write_plugin("SCALE = 2\n")
    refused = commands.refused("coins.yaml", "plugins", "[mine.py]")
    assert "of another plug-in mine.py (" in refused
    advice = (
        "what is added in a file of its own, named by the configurations that use it, leaves the runs of the others"
    )
    assert f"{advice} valid (as it was: results/coins/0/mine.py)." in refused
    assert Path("results/coins/0/mine.py").read_text() == "SCALE = 1\n"
    write_plugin("SCALE = 1\n")
    write_plugin("from beside_added import FACTOR\n", "added.py")
    write_plugin("FACTOR = 3\n", "beside_added.py")
    monkeypatch.syspath_prepend(folder)
    commands.run("coins.yaml", "plugins", "[added.py]", "name_tag", "added")
    assert Path("results/coins-added/0/beside_added.py").read_text() == "FACTOR = 3\n"
    write_plugin("FACTOR = 4\n", "beside_added.py")
    monkeypatch.delitem(sys.modules, "beside_added")
    refused = commands.refused("coins.yaml", "plugins", "[added.py]", "name_tag", "added")
    assert "of another plug-in beside_added.py (" in refused
    write_plugin("FACTOR = 4\n", "added.py")
    assert "of another plug-in added.py (" in commands.refused(
        "coins.yaml", "plugins", "[added.py]", "name_tag", "added"
    )
    assert commands.run("coins.yaml", "plugins", "[mine.py]", "--repeat", "2")["n"] == 2
    Path("mine.py").unlink()
    line = commands.run("results/coins/0/config.yaml", "out_dir", "again")
    assert line["run_dir"] == "again/coins/0", "a run keeps its plug-ins and its name"


def test_the_function_that_makes_the_graphs_counts_and_is_kept_with_the_split(
    folder: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("own").mkdir()
    Path("own/made.py").write_text(f"import torch\ndef graphs():\n    return torch.load({str(folder / 'data.pt')!r})\n")
    parts = {"train": [*range(20)], "val": [*range(20, 30)], "test": [*range(30, 40)]}
    Path("split.json").write_text(json.dumps(parts))
    text = GRAPHS.replace("path: data.pt", "function: 'own/made.py:graphs'")
    Path("made.yaml").write_text(text.replace("split_mode: random", "split_mode: fixed, split_file: split.json"))
    commands.run("made.yaml")
    record = record_of("made/0")
    assert {name.split()[0] for name in record["inputs"]} == {"data", "split", "function"}
    assert "function own/made.py" in record["inputs"]

    Path("elsewhere").mkdir()
    Path("results/made/0").rename("elsewhere/copied")
    for original in ("own/made.py", "split.json"):
        Path(original).unlink()
    monkeypatch.chdir("elsewhere")
    commands.run("copied/config.yaml")
    again = record_of("made/0")
    for same in ("config_hash", "settings", "inputs", "scores"):
        assert again[same] == record[same], same
    assert json.loads(Path("results/made/0/split.json").read_text()) == parts


@pytest.mark.slow
def test_two_configurations_have_functions_in_files_of_one_name(folder: Path, commands: Commands) -> None:
    for seed, name in enumerate(("one", "two")):
        write_graphs(seed)
        Path(name).mkdir()
        Path("data.pt").rename(f"{name}/data.pt")
        made = f"import torch\ndef graphs():\n    return torch.load('{name}/data.pt')\n"
        Path(name, "made.py").write_text(made)
        Path(name, f"{name}.yaml").write_text(GRAPHS.replace("path: data.pt", "function: 'made.py:graphs'"))
        commands.run(f"{name}/{name}.yaml")
    assert record_of("one/0")["data"]["fingerprint"] != record_of("two/0")["data"]["fingerprint"]
    groups = "".join(f"  - {{configs: [{name}/{name}.yaml], label: {name}}}\n" for name in ("one", "two"))
    Path("both.yaml").write_text(f"sweep: {{name: both, seeds: 1}}\ngroups:\n{groups}")
    assert sweep(["both.yaml"]) == 0, "finished runs are compared with what each file makes"


def test_a_sweep_compares_its_finished_runs_with_todays_data(
    folder: Path, commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.run("coins.yaml")
    Path("mine.yaml").write_text("sweep: {name: mine, seeds: 1}\ngroups:\n  - {configs: [coins.yaml], label: a}\n")
    assert sweep(["mine.yaml"]) == 0
    write_graphs(seed=5)
    assert sweep(["mine.yaml"]) == 2
    assert "of another data" in capsys.readouterr().err
    Path("data.pt").unlink()
    assert sweep(["mine.yaml", "--dry_run"]) == 2  # graphs of one's own are measured on the data


# ---- splits ----------------------------------------------------------------------------------------------------------


def test_runs_over_splits_with_another_seed_are_other_runs(folder: Path, commands: Commands) -> None:
    write_nodes()
    over_splits = ("nodes.yaml", "run_multiple_splits", "[0, 1]")
    commands.run(*over_splits)
    assert "of another seed (0 there, 1 here)" in commands.refused(*over_splits, "seed", "1")


def test_runs_over_draws_of_one_seed_are_averaged(folder: Path, commands: Commands) -> None:
    write_nodes()
    draws = ("dataset.split_mode", "random-permutation", "dataset.split_seed", "5", "run_multiple_splits", "[0, 1]")
    commands.run("nodes.yaml", *draws)
    first, second = (record_of(f"nodes/{number}")["inputs"] for number in (0, 1))
    assert first["split of seed 5"] != second["split 1 of seed 5"]
    assert len(aggregate("results/nodes").runs) == 2


def test_seeded_folds_are_another_split_under_the_same_name(folder: Path) -> None:
    def made(*seed: str) -> RunInputs:
        config = load_config("coins.yaml", ["dataset.split_mode", "cv-kfold-5", *seed])
        return data_inputs(config, read_data(config), Run(0, 7, 2))

    plain, first, second = made(), made("dataset.split_seed", "1"), made("dataset.split_seed", "2")
    # An earlier version ignored the key: the name is what its runs have, so that they differ instead of being unknown.
    assert len({inputs.identity.inputs["split 2"] for inputs in (plain, first, second)}) == 3
    assert "fold_seed" not in plain.data.plain()  # records of unseeded folds stay what they were
    assert split_texts([plain.data]) == ("cv-kfold-5, split 2 of 5, 24/8/8",)
    assert split_texts([first.data]) == ("cv-kfold-5 of seed 1, split 2 of 5, 24/8/8",)


def test_a_split_that_does_not_exist_shows_before_the_first_run(folder: Path, commands: Commands) -> None:
    write_nodes()
    message = commands.refused("nodes.yaml", "run_multiple_splits", "[0, 10]")
    assert "split_index 10 does not exist. Allowed: 0 .. 9" in message
    assert not (folder / "results").exists()


def test_masks_of_another_graph_are_refused(folder: Path, commands: Commands) -> None:
    write_nodes(nodes=60, masked=51)
    assert "60" in commands.refused("nodes.yaml")
    assert not (folder / "results").exists()


def test_a_split_without_validation_examples_is_refused(folder: Path, commands: Commands) -> None:
    Path("split.json").write_text(json.dumps({"train": [0, 1], "val": [], "test": [2]}))
    message = commands.refused("coins.yaml", "dataset.split_mode", "fixed", "dataset.split_file", "split.json")
    assert "part 'val' is empty" in message


def test_log_and_table_say_which_split_of_how_many(
    folder: Path, commands: Commands, caplog: pytest.LogCaptureFixture
) -> None:
    from graphbench.tables.configurations import configuration_table

    write_nodes()
    commands.run("nodes.yaml", "dataset.split_index", "3")
    assert "split standard, split 3 of 10, 20/20/20;" in Path("results/nodes/0/logging.log").read_text()
    caplog.clear()
    commands.run("nodes.yaml", "--repeat", "2", "dataset.split_index", "3")
    assert "nodes: all 2 runs have split 3 of 10; run_multiple_splits '[0, ..., 9]' trains on each." in caplog.text
    commands.run("nodes.yaml", "run_multiple_splits", "[0, 4]", "name_tag", "two")
    cells = [row[2].text for row in configuration_table([Path("results/nodes"), Path("results/nodes-two")]).rows]
    assert cells == ["standard, split 3 of 10, 20/20/20", "standard, 2 of 10 splits, 20/20/20"]


def test_a_runs_config_names_its_seed_and_split_and_makes_it_again(folder: Path, commands: Commands) -> None:
    write_nodes()
    commands.run("nodes.yaml", "run_multiple_splits", "[1, 4]", "seed", "3")
    write_nodes()
    line = commands.run("results/nodes/4/config.yaml", "out_dir", "again")
    assert line["run_dir"] == "again/nodes-split4/3"
    again = json.loads((folder / line["run_dir"] / "record.json").read_text())
    assert again["data"]["split_index"] == 4
    assert again["scores"] == record_of("nodes/4")["scores"]


def test_a_runs_config_makes_a_seeded_run_again(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml", "--repeat", "3")
    line = commands.run("results/coins/2/config.yaml", "out_dir", "again")
    again = json.loads((folder / line["run_dir"] / "record.json").read_text())
    assert (again["config_hash"], again["inputs"]) == (
        record_of("coins/2")["config_hash"],
        record_of("coins/2")["inputs"],
    )
    assert again["scores"] == record_of("coins/2")["scores"]


# ---- pretrained models -----------------------------------------------------------------------------------------------

INFERENCE = ("train.mode", "inference-only", "pretrained.dir")
LEARNS = ("optim.max_epoch", "60", "optim.base_lr", "0.05")


@pytest.mark.slow
def test_coin_tosses_stay_chance_under_inference(folder: Path, commands: Commands) -> None:
    """A model that has memorised its training graphs is not judged on them."""
    commands.run("coins.yaml", *LEARNS, "--repeat", "3")
    trained = [score(f"coins/{seed}") for seed in range(3)]
    message = commands.refused("coins.yaml", *LEARNS, *INFERENCE, "results/coins/0", "--repeat", "3")
    assert "would be applied as run 0 and as run 1" in message
    message = commands.refused("coins.yaml", *LEARNS, *INFERENCE, "results/coins/0", "seed", "2")
    assert "was trained on another split of these examples (random, index 0, seed 0; this run has" in message
    line = commands.run("coins.yaml", *LEARNS, *INFERENCE, "results/coins", "--repeat", "3")
    assert [score(f"coins-inference-only/{seed}") for seed in range(3)] == pytest.approx(trained)
    assert line["test"]["accuracy"] == pytest.approx(np.mean(trained))


@pytest.mark.slow
def test_a_model_of_one_split_is_not_judged_on_the_others(folder: Path, commands: Commands) -> None:
    write_nodes(splits=4)
    over_splits = ("nodes.yaml", *LEARNS, "run_multiple_splits", "[0, 1, 2, 3]")
    commands.run(*over_splits)
    own = ("results/nodes/2/config.yaml", *INFERENCE, "results/nodes/2")
    line = commands.run(*own)
    assert line["n"] == 1
    assert line["test"]["accuracy"] == pytest.approx(score("nodes/2"))
    assert "would be applied as run 0 and as run 1" in commands.refused(*over_splits, *INFERENCE, "results/nodes/2")
    assert "trained on another split" in commands.refused(*own, "dataset.split_index", "1", "out_dir", "other")
    line = commands.run(*over_splits, *INFERENCE, "results/nodes")
    assert line["test"]["accuracy"] == pytest.approx(np.mean([score(f"nodes/{split}") for split in range(4)]))


def test_fine_tuning_keeps_test_examples_out(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    tuned = ("coins.yaml", "name_tag", "tuned", "pretrained.dir", "results/coins/0")
    assert "trained on another split" in commands.refused(*tuned, "--repeat", "2")
    assert not (folder / "results/coins-tuned").exists()
    line = commands.run(*tuned, "--repeat", "2", "dataset.split_seed", "0")
    assert line["n"] == 2
    assert (
        "the split it was trained with, the very examples"
        in record_of("coins-tuned/1")["data"]["pretrained"]["judged"][0]
    )


def test_what_an_earlier_ancestor_was_trained_on_counts(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    write_graphs(seed=9)
    commands.run("coins.yaml", "dataset.name", "others", "name_tag", "b", "pretrained.dir", "results/coins/0")
    assert "other data (coins)" in record_of("coins-b/0")["data"]["pretrained"]["judged"][0]
    write_graphs()
    third = ("coins.yaml", "name_tag", "c", "pretrained.dir", "results/coins-b/0")
    assert "results/coins/0 was trained on another split" in commands.refused(*third, "dataset.split_seed", "4")
    commands.run(*third)


def test_an_older_record_is_compared_by_what_it_says(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    path = folder / "results/coins/0/record.json"
    content = json.loads(path.read_text())
    del content["checksum"], content["curves"], content["inputs"], content["commits"]
    del content["data"]["split_count"], content["data"]["split_seed"]
    path.write_text(json.dumps(content))
    assert commands.run("coins.yaml")["n"] == 1  # unknown is no difference
    commands.run("coins.yaml", *INFERENCE, "results/coins/0")
    assert "as far as its older record tells" in record_of("coins-inference-only/0")["data"]["pretrained"]["judged"][0]
    refused = commands.refused("coins.yaml", *INFERENCE, "results/coins/0", "dataset.split_seed", "3", "name_tag", "x")
    assert "trained on another split" in refused


def test_retrained_weights_are_applied_anew(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    commands.run("coins.yaml", *INFERENCE, "results/coins/0")
    commands.run("coins.yaml", "optim.base_lr", "0.3", "--overwrite")
    message = commands.refused("coins.yaml", *INFERENCE, "results/coins/0")
    assert "of another weights of results/coins/0 (" in message


def test_parameters_that_nothing_has_trained_do_not_predict(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    message = commands.refused("coins.yaml", *INFERENCE, "results/coins/0", "gt.layers", "2")
    assert "parameters of this model are not in the checkpoint and would predict untrained" in message


def test_a_dumped_inference_makes_itself_again(folder: Path, commands: Commands) -> None:
    commands.run("coins.yaml")
    line = commands.run("coins.yaml", *INFERENCE, "results/coins/0")
    again = commands.run("results/coins-inference-only/0/config.yaml", "out_dir", "again", "name_tag", "tagged")
    assert (again["run_dir"], again["test"]) == ("again/coins-tagged-inference-only/0", line["test"])
    labels = np.array([int(graph["y"]) for graph in torch.load("data.pt")])
    with np.load(Path(line["run_dir"], "predictions.npz")) as file:
        graphs = {part: file[f"{part}_graph"] for part in ("train", "val", "test")}
        assert sorted(np.concatenate([*graphs.values()]).tolist()) == list(range(40))
        for part, numbers in graphs.items():
            assert labels[numbers].tolist() == file[f"{part}_true"].reshape(-1).tolist()
