"""``train.compile``: the same training with blocks compiled."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.experiment import run
from graphbench.layers import compiled
from tests.paths import ROOT

CONFIG = ROOT / "configs/quickstart.yaml"
SMALL = [
    *"dataset.SBM.train_graphs 12 dataset.SBM.val_graphs 4 dataset.SBM.test_graphs 4 train.batch_size 4".split(),
    *"optim.max_epoch 3 gt.layers 1 gt.dropout 0.0 gt.attn_dropout 0.0 accelerator cpu precision 64-true".split(),
]

pytestmark = pytest.mark.filterwarnings("ignore")  # the compiler looks at what warns


def trained(out_dir: Path, *overrides: Any) -> tuple[dict[str, Any], Path]:
    result = run(load_config(CONFIG, [*SMALL, "out_dir", str(out_dir), *overrides]))
    assert result is not None
    return result, Path(result["run_dir"])


def curve(folder: Path, split: str) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / split / "stats.json").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(not compiled.supported(), reason="needs a newer PyTorch")
def test_same_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    made = compiled.compile_layers
    # What inductor makes of a graph has a test of its own, and takes long.
    monkeypatch.setattr("graphbench.factory.training.compile_layers", lambda model: made(model, backend="eager"))
    with caplog.at_level(logging.INFO, "graphbench"):
        _, compiled_folder = trained(tmp_path / "compiled", "train.compile", "True")
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1  # evaluation asks SFi for statistics
    assert not [message for message in caplog.messages if "stays without" in message]
    _, plain_folder = trained(tmp_path / "plain")
    for split in ("train", "val", "test"):
        torch.testing.assert_close(
            torch.tensor(curve(compiled_folder, split), dtype=torch.float64),
            torch.tensor(curve(plain_folder, split), dtype=torch.float64),
            rtol=1e-9,
            atol=1e-9,
        )
    weights = [
        torch.load(next(folder.rglob("*.ckpt")), weights_only=False) for folder in (compiled_folder, plain_folder)
    ]
    assert list(weights[0]["model"]) == list(weights[1]["model"])


def test_hash_is_that_without() -> None:
    assert load_config(CONFIG, ["train.compile", "True"]).hash == load_config(CONFIG).hash


def test_an_older_pytorch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.7.1")
    with pytest.raises(UserError, match=r"train.compile: compiled blocks need PyTorch 2.13 or newer, this is 2.7.1"):
        trained(tmp_path, "train.compile", "True")


@pytest.mark.skipif(not compiled.supported(), reason="needs a newer PyTorch")
def test_always_captured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"compiled blocks cannot be captured: set train.capture to auto"):
        trained(tmp_path, "train.compile", "True", "train.capture", "always")
