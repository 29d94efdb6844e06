"""Graph data sets of the Hugging Face Hub: read from what its library wrote to disk, trained, and refused."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from graphbench.console import main
from graphbench.data.datasets.custom import read_graphs
from graphbench.errors import UserError

YAML = """\
_base_: configs/quickstart.yaml
dataset: {format: custom, name: rings, task: graph, task_type: classification, transductive: False,
          split_mode: standard, node_encoder: True, node_encoder_name: LinearNode, edge_encoder: False,
          custom: {path: saved}}
posenc_LapPE.enable: False
posenc_RWSE.enable: False
model.loss_fun: cross_entropy
gnn: {head: default, dim_inner: 16}
gt: {layer_type: GIN+SGFormer, layers: 1, dim_hidden: 16}
optim: {max_epoch: 1, num_warmup_epochs: 0}
print: file
"""


def _ring(size: int) -> dict[str, Any]:
    """A row as ``graphs-datasets/*`` have it."""
    here = list(range(size))
    edges = [here + here[1:] + here[:1], here[1:] + here[:1] + here]
    return {"edge_index": edges, "node_feat": [[1.0, float(size)]] * size, "y": [size % 2], "num_nodes": size}


def _save(folder: Path, **parts: range) -> None:
    pytest.importorskip("datasets.arrow_dataset", reason="the library datasets is not installed")
    import datasets

    made = {part: datasets.Dataset.from_list([_ring(size) for size in sizes]) for part, sizes in parts.items()}
    datasets.DatasetDict(made).save_to_disk(str(folder))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.mark.filterwarnings("default")
def test_rows_are_graphs_and_parts_are_the_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _save(tmp_path / "saved", train=range(3, 15), validation=range(15, 19), test=range(19, 24))
    graphs, code = read_graphs("saved")
    assert [graph["split"] for graph in graphs] == ["train"] * 12 + ["val"] * 4 + ["test"] * 5
    assert code == {}
    (tmp_path / "rings.yaml").write_text(YAML)
    assert main(["train", "rings.yaml"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["dataset"] == "rings"
    record = json.loads((tmp_path / "results/rings/0/record.json").read_text())
    assert record["data"]["sizes"] == {"train": 12, "val": 4, "test": 5}


@pytest.mark.filterwarnings("default")
def test_what_is_no_set_of_graphs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets.arrow_dataset", reason="the library datasets is not installed")
    import datasets

    datasets.Dataset.from_list([{"text": "a"}]).save_to_disk(str(tmp_path / "texts"))
    with pytest.raises(UserError, match=r"its columns text are none of graphs \(edge_index"):
        read_graphs(str(tmp_path / "texts"))
    _save(tmp_path / "one", train=range(3, 6))
    assert "split" not in read_graphs(str(tmp_path / "one"))[0][0]
    for module in ("datasets.config", "huggingface_hub.constants"):  # somebody may have imported them before
        monkeypatch.setattr(f"{module}.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"^hf://nobody/nothing: could not be read: "):
        read_graphs("hf://nobody/nothing")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "datasets":
            raise ImportError(name)
        return imported(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match=r"pip install 'graphbench-gt\[huggingface\]'"):
        read_graphs("hf://graphs-datasets/MUTAG")
