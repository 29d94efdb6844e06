"""MLflow: every epoch is there, a resumed run goes on, a missing package costs one warning."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from graphbench.train.mlflow_logger import MLflowLogger, metric_name
from graphbench.train.reporter import Reporter
from tests.train.tiny_run import tiny_settings, tiny_trainer


class Stop(Exception):
    """Ends a run from a reporter."""


class StopAt(Reporter):
    def epoch(self, report) -> None:
        if report.epoch == 3:
            raise Stop


def _logger() -> MLflowLogger:
    return MLflowLogger("graphbench", "tiny.r0", {"seed": 0, "long": "x" * 9000}, {"data": "Cora"})


def test_a_missing_package_is_one_warning(tmp_path: Path, monkeypatch, caplog) -> None:
    for name in ("mlflow", "mlflow.entities", "mlflow.tracking"):
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.WARNING):
        assert tiny_trainer(tmp_path, reporters=[_logger()]).run().epochs == 6
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["MLflow logging is off: mlflow is not installed: pip install 'graphbench-gt[mlflow]'."]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_resumed_run_goes_on_in_its_file(tmp_path: Path, monkeypatch) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    settings = tiny_settings(max_epoch=6, ckpt_period=2)
    client = tracking.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    with pytest.raises(Stop):
        tiny_trainer(tmp_path, settings, reporters=[_logger(), StopAt()]).run()
    experiment = client.get_experiment_by_name("graphbench").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.info.status == "FAILED"
    tiny_trainer(tmp_path, settings, reporters=[_logger()]).run()
    (run,) = client.search_runs([experiment])
    assert (run.info.status, run.info.run_name, run.data.tags["data"]) == ("FINISHED", "tiny.r0", "Cora")
    assert (run.data.params["seed"], len(run.data.params["long"])) == ("0", 6000)
    lines = (tmp_path / "tiny" / "0" / "val" / "stats.json").read_text().splitlines()
    last = {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, "val/loss")}
    assert last == pytest.approx({step: json.loads(line)["loss"] for step, line in enumerate(lines)})
    assert len(last) == 6
    assert {"best/val_accuracy", "best/test_accuracy", "train/loss"} <= set(run.data.metrics)


@pytest.mark.parametrize(
    ("name", "known_to_mlflow"),
    [("val/loss", "val/loss"), ("test/hits@50", "test/hits_at_50"), ("val/accuracy-SBM", "val/accuracy-SBM"),
     ("a b.c", "a b.c"), ("val/f1%", "val/f1_")],
)  # fmt: skip
def test_names_are_those_that_mlflow_takes(name: str, known_to_mlflow: str) -> None:
    assert metric_name(name) == known_to_mlflow
