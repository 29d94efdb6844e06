"""Curves written for other programs."""

from __future__ import annotations

import csv
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from graphbench.train.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from graphbench.train.reporter import EpochReport, Reporter
from graphbench.train.turns import Turns, take_turns
from tests.train.tiny_run import tiny_settings, tiny_trainer


class Stop(Exception):
    """Ends a run from a reporter."""


class StopAt(Reporter):
    def __init__(self, epoch: int) -> None:
        self.at = epoch

    def epoch(self, report) -> None:
        if report.epoch == self.at:
            raise Stop


def read_csv(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "tiny" / "0" / "metrics.csv").read_text().splitlines()))


def test_csv(tmp_path: Path) -> None:
    tiny_trainer(tmp_path, tiny_settings(max_epoch=5, eval_period=2), reporters=[CSVLogger()]).run()
    rows = read_csv(tmp_path)
    assert [row["epoch"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert [bool(row["val/accuracy"]) for row in rows] == [True, True, False, True, True]
    lines = (tmp_path / "tiny" / "0" / "train" / "stats.json").read_text().splitlines()
    assert [float(row["train/loss"]) for row in rows] == [json.loads(line)["loss"] for line in lines]


def test_csv_of_a_resumed_run_has_every_epoch_once(tmp_path: Path) -> None:
    settings = tiny_settings(max_epoch=6, ckpt_period=2)
    with pytest.raises(Stop):
        tiny_trainer(tmp_path, settings, reporters=[CSVLogger(), StopAt(4)]).run()
    assert len(read_csv(tmp_path)) == 5
    tiny_trainer(tmp_path, settings, reporters=[CSVLogger()]).run()
    assert [row["epoch"] for row in read_csv(tmp_path)] == [str(epoch) for epoch in range(6)]


@pytest.mark.filterwarnings("default")
def test_tensorboard_of_a_resumed_run_has_every_epoch_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = tiny_settings(max_epoch=6, ckpt_period=2)
    with pytest.raises(Stop):
        tiny_trainer(tmp_path, settings, reporters=[TensorBoardLogger(), StopAt(4)]).run()
    tiny_trainer(tmp_path, settings, reporters=[TensorBoardLogger()]).run()
    events = EventAccumulator(str(tmp_path / "tiny" / "0" / "tensorboard")).Reload()
    lines = (tmp_path / "tiny" / "0" / "val" / "stats.json").read_text().splitlines()
    assert [event.step for event in events.Scalars("val/accuracy")] == list(range(6))
    assert [event.value for event in events.Scalars("val/loss")] == pytest.approx(
        [json.loads(line)["loss"] for line in lines]
    )


@pytest.mark.parametrize("make", [lambda: WandbLogger("p", None, "n", {}), TensorBoardLogger])
def test_a_missing_package_is_one_warning(tmp_path: Path, monkeypatch, caplog, make) -> None:
    for name in ("wandb", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.WARNING):
        outcome = tiny_trainer(tmp_path, reporters=[make()]).run()
    assert outcome.epochs == 6
    assert [record.message.split(" is off: ")[1] for record in caplog.records if " is off: " in record.message]
    assert sum(record.levelno >= logging.WARNING for record in caplog.records) == 1


def test_a_service_that_fails_at_the_end_costs_one_warning_and_hides_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreachable:
        summary: ClassVar[dict[str, float]] = {}

        def log(self, values: object, step: int) -> None: ...

        def finish(self, exit_code: int = 0) -> None:
            raise OSError("no route to host")

    service = SimpleNamespace(init=lambda **_: Unreachable(), login=lambda prompt, verify: True)
    monkeypatch.setitem(sys.modules, "wandb", service)
    closed: list[str] = []

    class Last(Reporter):
        def close(self) -> None:
            closed.append("last")

    settings = tiny_settings(max_epoch=2)
    outcome = tiny_trainer(tmp_path, settings, reporters=[WandbLogger("p", None, "n", {}), Last()]).run()
    assert outcome.epochs == 2
    with pytest.raises(Stop):
        tiny_trainer(
            tmp_path / "stopped", settings, reporters=[WandbLogger("p", None, "n", {}), StopAt(0), Last()]
        ).run()
    assert closed == ["last", "last"]
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert messages == ["WandbLogger failed at the end of the run: OSError: no route to host"] * 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # its thread ends with it
def test_event_files_that_cannot_be_written_cost_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("tensorboard")
    folder = tmp_path / "tiny/0/tensorboard"

    class TakeAway(Reporter):
        def epoch(self, report: EpochReport) -> None:
            if report.epoch == 2:
                folder.rename(tmp_path / "taken")  # at once: its thread may be writing
                folder.touch()

    with caplog.at_level(logging.WARNING):
        assert tiny_trainer(tmp_path, reporters=[TensorBoardLogger(), TakeAway()]).run().epochs == 6
    assert ["TensorBoard logging stops in epoch" in record.message for record in caplog.records] == [True]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_wandb_offline(tmp_path: Path, monkeypatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    kept = {}

    class Look(Reporter):
        def epoch(self, report) -> None:
            kept.update(dict(wandb.run.summary), step=wandb.run.step)
            kept.update(name=wandb.run.name, group=wandb.run.group, tags=wandb.run.tags)

    logger = WandbLogger("project", None, "tiny.r0", {"seed": 0}, group="tiny", tags=["Cora", "gnn"])
    outcome = tiny_trainer(tmp_path, tiny_settings(max_epoch=3), reporters=[logger, Look()]).run()
    assert wandb.run is None
    assert list((tmp_path / "tiny" / "0" / "wandb").glob("offline-run-*"))
    (test,) = [s.value for s in outcome.scores if (s.split, s.name) == ("test", "accuracy")]
    assert kept["best_test_perf"] == test
    assert kept["best/epoch"] == outcome.best_epoch
    assert {f"{split}/{name}" for split in ("train", "val", "test") for name in ("loss", "accuracy")} <= set(kept)
    assert {f"best/{split}_{name}" for split in ("train", "val", "test") for name in ("loss", "accuracy")} <= set(kept)
    assert {"best_train_perf", "best_val_perf", "full_epoch_time_avg", "full_epoch_time_sum"} <= set(kept)
    assert (kept["name"], kept["group"], kept["tags"]) == ("tiny.r0", "tiny", ("Cora", "gnn"))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_wandb_of_runs_that_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each logs into its own run while the others are open."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    epochs: dict[str, list[int]] = {"a": [], "b": []}

    def training(name: str) -> Turns[None]:
        logger = WandbLogger("project", None, name, {}, group="c", tags=[name], among_others=True)
        trainer = tiny_trainer(tmp_path / name, tiny_settings(max_epoch=2 if name == "a" else 3), reporters=[logger])
        log = logger._log

        def logged(report: EpochReport) -> None:
            log(report)
            epochs[name].append(logger._run.step)

        monkeypatch.setattr(logger, "_log", logged)
        yield from trainer.turns()

    take_turns({name: training(name) for name in epochs}, torch.device("cpu"), lambda name, error: None)
    assert epochs == {"a": [0, 1], "b": [0, 1, 2]}
    for name in epochs:
        assert len(list((tmp_path / name / "tiny/0/wandb").glob("offline-run-*"))) == 1
