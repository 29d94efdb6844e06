"""``metric_best``: any metric that is computed may choose the epoch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.experiment import run
from graphbench.factory.data import declared_info
from graphbench.runs.aggregate import aggregate
from tests.paths import ROOT

CONFIGS = ROOT / "configs"
QUICK = "dataset.SBM.train_graphs 8 dataset.SBM.val_graphs 4 dataset.SBM.test_graphs 4 optim.max_epoch 3 gt.layers 1"


def test_epoch_is_chosen_by_the_named_metric(tmp_path: Path) -> None:
    overrides = [*QUICK.split(), "metric_best", "f1", "out_dir", str(tmp_path), "accelerator", "cpu"]
    result = run(load_config(CONFIGS / "quickstart.yaml", overrides))
    assert result is not None
    folder = Path(result["run_dir"])
    record = json.loads((folder / "record.json").read_text())
    epochs = [json.loads(line) for line in (folder / "val/stats.json").read_text().splitlines()]
    assert record["metric"] == "f1"
    assert record["best_epoch"] == max(epochs, key=lambda epoch: epoch["f1"])["epoch"]
    assert {"accuracy", "accuracy-SBM", "f1"} <= {score["name"] for score in record["scores"]}


def test_epoch_is_chosen_by_loss(tmp_path: Path) -> None:
    overrides = [*QUICK.split(), "metric_best", "loss", "out_dir", str(tmp_path), "accelerator", "cpu"]
    result = run(load_config(CONFIGS / "quickstart.yaml", [*overrides, "optim.base_lr", "0.05"]))
    assert result is not None
    folder = Path(result["run_dir"])
    epochs = [json.loads(line) for line in (folder / "val/stats.json").read_text().splitlines()]
    found = aggregate(folder)
    assert (found.metric, found.selected_by) == ("accuracy-SBM", "loss")
    assert found.runs[0].best_epoch == min(epochs, key=lambda epoch: epoch["loss"])["epoch"]
    assert result["metric"] == "accuracy-SBM"  # what tables have


def test_the_direction_of_the_loss(tmp_path: Path) -> None:
    overrides = ["metric_best", "loss", "metric_agg", "argmax"]
    with pytest.raises(UserError, match=r"metric_agg is 'argmax', but the lowest loss"):
        declared_info(load_config(CONFIGS / "nodes/sgformer-cora.yaml", overrides))


def test_deezer_by_accuracy() -> None:
    info = declared_info(load_config(CONFIGS / "nodes/sgformer-deezer-accuracy.yaml"))
    assert info is not None
    assert (info.metric, info.maximize) == ("accuracy", True)


def test_what_is_not_computed_is_refused() -> None:
    with pytest.raises(UserError, match=r"unknown metric_best 'mae'. Allowed: accuracy, auc, auto"):
        declared_info(load_config(CONFIGS / "nodes/sgformer-deezer.yaml", ["metric_best", "mae"]))


def test_the_refusal_says_how_else() -> None:
    def message(name: str) -> str:
        with pytest.raises(UserError) as refused:
            declared_info(load_config(CONFIGS / "nodes/sgformer-deezer.yaml", ["metric_best", name]))
        return str(refused.value)

    assert message("f1-macro").endswith(" 'f1-macro' is computed on request: custom_metrics '[f1-macro]'.")
    assert message("mae").endswith("recall.")  # is for other tasks
