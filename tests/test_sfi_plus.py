"""SFi-Former+: a trained DFi-Former goes on with friction, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.pretrained import adopt_pretrained, load_pretrained
from graphbench.runs.record import RunRecord
from graphbench.train.checkpointer import read_checkpoint
from tests.paths import ROOT

CONFIGS = ROOT / "configs"
PLUS = sorted(CONFIGS.rglob("sfi-plus-*.yaml"))
FRESH = {"q_friction", "k_friction", "log_lam", "max_nodes"}

SFI = f"""
_base_: {CONFIGS / "synthetic/pattern-gps.yaml"}
dataset: {{SBM: {{train_graphs: 8, val_graphs: 4, test_graphs: 4}}}}
gt: {{layer_type: CustomGatedGCN+SFi, layers: 1, n_heads: 2, dim_hidden: 32}}
gnn: {{dim_inner: 32, layers_post_mp: 2}}
train: {{batch_size: 4}}
optim: {{max_epoch: 2, num_warmup_epochs: 0, base_lr: 0.01}}
"""
DFI = "_base_: sfi.yaml\ngt: {layer_type: CustomGatedGCN+DFi}\n"
SFI_PLUS = "_base_: sfi.yaml\npretrained: {dir: results/dfi, adopt_architecture: false, reset_prediction_head: false}\n"


def _of_friction(names: Iterable[str]) -> set[str]:
    """Which of :data:`FRESH` own these parameters; every name must be of one."""
    found = {next((part for part in name.split(".") if part in FRESH), name) for name in names}
    assert found <= FRESH, found - FRESH
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("sfi", SFI), ("dfi", DFI), ("sfi-plus", SFI_PLUS)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_before_the_first_stage_it_can_be_counted_but_not_trained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--cfg", "sfi.yaml", "sfi-plus.yaml", "--dry_run"]) == 0
    alone, plus = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert plus["params"] == alone["params"]
    assert plus["layers"] == ["CustomGatedGCN+SFi"]
    assert main(["--cfg", "sfi-plus.yaml"]) == 2
    assert "results/dfi is no run directory, and it holds no run. Train one first" in capsys.readouterr().err
    assert not (folder / "results").exists()
    assert not (folder / "datasets").exists(), "data is read after that"


def test_shared_parameters_go_on_and_friction_starts_fresh(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cfg", "dfi.yaml"]) == 0
    stored = read_checkpoint(folder / "results/dfi/0/ckpt/best.ckpt")["model"]

    config = load_config("sfi-plus.yaml")
    info = declared_info(config)
    assert info is not None
    torch.manual_seed(0)
    model = build_model(adopt_pretrained(config, 0), info)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    load_pretrained(config, model, 0)
    after = model.state_dict()
    fresh = after.keys() - stored.keys()
    assert _of_friction(fresh) == FRESH - {"max_nodes"}, "no data was read here"
    assert stored.keys() < after.keys()
    for name, value in after.items():
        assert torch.equal(value, before[name] if name in fresh else stored[name]), name
    assert any(name.startswith("head.") for name in stored)
    assert not all(torch.equal(before[name], value) for name, value in stored.items() if name.startswith("head."))

    capsys.readouterr()
    assert main(["--cfg", "sfi-plus.yaml"]) == 0
    assert "CustomGatedGCN+SFi" in (folder / "results/sfi-plus/0/config.yaml").read_text()
    log = (folder / "results/sfi-plus/0/logging.log").read_text()
    said = next(line for line in log.splitlines() if "start as initialised" in line)
    assert _of_friction(said.rpartition(": ")[2].split(", ")) == FRESH
    assert "are not used" not in log
    assert "is not finished" not in log

    record = RunRecord.read(folder / "results/dfi/0/record.json")
    assert record is not None
    record.end("failed", "too hot").write(folder / "results/dfi/0/record.json")
    pretrained = load_pretrained(config, model, 0)
    assert pretrained is not None
    assert "results/dfi/0 is not finished (failed)" in pretrained.notes[1]


@pytest.mark.parametrize("path", PLUS, ids=lambda path: path.stem)
def test_every_shipped_file_goes_on_from_a_shipped_file(path: Path) -> None:
    """The run it names is the one that main.py makes of the file with that name, and fits it."""
    small = ["gt.layers", "1", "gt.dim_hidden", "24", "gnn.dim_inner", "24"]
    config = load_config(path, small)
    keys = config.tree.pretrained
    first = path.with_name(Path(keys.dir).name + ".yaml")
    assert Path(keys.dir) == Path(load_config(first).tree.out_dir) / first.stem
    assert (keys.adopt_architecture, keys.reset_prediction_head, keys.freeze_main) == (False, False, False)
    info = declared_info(config)
    assert info is not None
    plus, dense = (build_model(each, info).state_dict() for each in (config, load_config(first, small)))
    assert dense.keys() < plus.keys()
    assert all(plus[name].shape == value.shape for name, value in dense.items())
    assert _of_friction(plus.keys() - dense.keys()) == FRESH - {"max_nodes"}


def test_the_nine_data_sets_have_three_files_each() -> None:
    stems = {path.stem for path in CONFIGS.rglob("*.yaml")}
    names = [path.stem.removeprefix("sfi-plus-") for path in PLUS]
    assert len(names) == 9
    assert {f"{kind}-{name}" for kind in ("sfi", "dfi") for name in names} <= stems
