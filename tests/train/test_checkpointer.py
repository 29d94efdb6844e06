"""Killed, interrupted, damaged: the same command ends with the same numbers, bit for bit."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from graphbench.errors import Interrupted, RunFailed, UserError
from graphbench.runs.record import RunRecord
from graphbench.runs.run_directory import RunDirectory
from graphbench.train import checkpointer
from graphbench.train.accelerator import make_fabric
from graphbench.train.checkpointer import Checkpointer, read_checkpoint
from graphbench.train.reporter import Reporter
from tests.train.tiny_process import in_this_process, start, wait_for, without_times
from tests.train.tiny_run import TinyModel, summary, tiny_settings, tiny_trainer


class Bomb(Reporter):
    """Does something after a certain batch."""

    def __init__(self, epoch: int, batch: int, act) -> None:
        self.place, self.act = (epoch, batch), act

    def batch(self, epoch: int, done: int, total: int) -> None:
        if (epoch, done) == self.place:
            self.act()


class Killed(BaseException):
    """Nobody catches it: what is on disk at this moment is what a killed process leaves."""


def kill() -> None:
    raise Killed


@dataclass(frozen=True)
class Whole:
    """A run that nobody interrupts: its folder, what it ends with, and the folder of a twin killed in epoch 3."""

    folder: Path
    expected: dict[str, Any]
    killed: Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """With a checkpoint after every epoch."""
    folder, settings = tmp_path_factory.mktemp("whole"), tiny_settings(ckpt_period=1)
    run = tiny_trainer(folder / "whole", settings)
    expected = summary(run, run.run())
    with pytest.raises(Killed):
        tiny_trainer(folder / "killed", settings, reporters=[Bomb(3, 2, kill)]).run()
    return Whole(folder / "whole", expected, folder / "killed")


@pytest.mark.slow
def test_kill_9_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    options = ["--max_epoch", "5", "--ckpt_seconds", "0"]  # a checkpoint after every step
    process = start(tmp_path / "killed", *options, "--sleep", "0.05")
    wait_for(process, "epoch 2 batch 3")
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    record = RunRecord.read(tmp_path / "killed" / "tiny" / "0" / "record.json")
    assert record.status == "running"

    whole, rest = (in_this_process(tmp_path / name, *options) for name in ("whole", "killed"))
    assert (whole.pop("decision"), rest.pop("decision")) == ("fresh", "resume")
    assert rest == whole
    assert without_times(tmp_path / "killed") == without_times(tmp_path / "whole")
    record = RunRecord.read(tmp_path / "killed" / "tiny" / "0" / "record.json")
    assert (record.status, record.resumed) == ("finished", 1)


LEVELS, PLACES = ("graph", "node"), ((0, 1), (3, 1), (7, 1))
SCHEDULERS = ("cosine_with_warmup", "reduce_on_plateau", "polynomial_with_warmup")


@pytest.mark.parametrize(
    ("level", "scheduler", "place", "accumulation"),
    # Every two of them together once at least.
    [
        (LEVELS[(i + j) % 2], scheduler, place, 1 + (i + j) // 2 % 2)
        for i, scheduler in enumerate(SCHEDULERS)
        for j, place in enumerate(PLACES)
    ],
)
def test_killed_anywhere_ends_the_same(tmp_path: Path, level, scheduler, place, accumulation) -> None:
    settings = tiny_settings(max_epoch=8, ckpt_period=2, eval_period=2, patience=7, batch_accumulation=accumulation)
    whole = tiny_trainer(tmp_path / "a", settings, level=level, scheduler=scheduler)
    expected = summary(whole, whole.run())
    with pytest.raises(Killed):
        tiny_trainer(tmp_path / "b", settings, level=level, scheduler=scheduler, reporters=[Bomb(*place, kill)]).run()
    rest = tiny_trainer(tmp_path / "b", settings, level=level, scheduler=scheduler)
    assert summary(rest, rest.run()) == expected
    assert without_times(tmp_path / "b") == without_times(tmp_path / "a")


def test_a_state_from_the_middle_of_an_epoch(tmp_path: Path) -> None:
    settings = tiny_settings(max_epoch=4, ckpt_seconds=0.0, batch_accumulation=2)
    whole = tiny_trainer(tmp_path / "whole", settings)
    expected = summary(whole, whole.run())
    for batch in (1, 2, 4):
        folder = tmp_path / str(batch)
        with pytest.raises(Killed):
            tiny_trainer(folder, settings, reporters=[Bomb(2, batch + 1, kill)]).run()
        state = read_checkpoint(folder / "tiny" / "0" / "ckpt" / "last.ckpt")
        assert (state["epoch"], state["batches_done"]) == (2, batch // 2 * 2)
        rest = tiny_trainer(folder, settings)
        assert summary(rest, rest.run()) == expected


def test_a_run_resumed_inside_an_epoch_logs_the_rate_that_the_epoch_began_with(tmp_path: Path) -> None:
    settings = tiny_settings(ckpt_seconds=0.0, schedule_every_step=True)
    tiny_trainer(tmp_path / "a", settings).run()
    with pytest.raises(Killed):
        tiny_trainer(tmp_path / "b", settings, reporters=[Bomb(2, 3, kill)]).run()
    tiny_trainer(tmp_path / "b", settings).run()
    assert without_times(tmp_path / "b") == without_times(tmp_path / "a")


def test_an_ended_run_is_not_trained_again(tmp_path: Path) -> None:
    first = tiny_trainer(tmp_path).run()
    trainer = tiny_trainer(tmp_path)
    again = trainer.run()
    assert trainer.model.forwards == 0
    assert (again.scores, again.best_epoch, again.total_time) == (first.scores, first.best_epoch, first.total_time)


SIGNALS = [(getattr(signal, name), name) for name in ("SIGTERM", "SIGHUP", "SIGXCPU") if hasattr(signal, name)]


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGHUP as a terminal's program has it; under ``nohup`` the tests inherit that it is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(("number", "name"), [*SIGNALS, (signal.SIGINT, "Ctrl-C")])
def test_a_signal_saves_the_state(tmp_path: Path, whole: Whole, number: signal.Signals, name: str) -> None:
    before = signal.getsignal(number)
    bomb = Bomb(1, 2, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match=f"stopped by {name} in epoch 1. The state is saved") as error:
        tiny_trainer(tmp_path, reporters=[bomb]).run()
    assert error.value.exit_code == 130
    assert signal.getsignal(number) is before
    state = read_checkpoint(tmp_path / "tiny" / "0" / "ckpt" / "last.ckpt")
    assert (state["epoch"], state["batches_done"]) == (1, 2)
    rest = tiny_trainer(tmp_path)
    assert summary(rest, rest.run()) == whole.expected


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_under_nohup_the_end_of_the_terminal_ends_nothing(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        tiny_trainer(tmp_path, reporters=[Bomb(1, 2, lambda: os.kill(os.getpid(), signal.SIGHUP))]).run()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tiny_trainer(tmp_path, reporters=[Bomb(1, 2, twice)]).run()


@pytest.mark.slow
def test_sigterm_from_outside(tmp_path: Path) -> None:
    process = start(tmp_path, "--sleep", "0.05")
    wait_for(process, "epoch 1 batch 2")
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "The state is saved" in err
    record = RunRecord.read(tmp_path / "tiny" / "0" / "record.json")
    assert record.status == "interrupted"
    assert "SIGTERM" in record.reason


def test_without_checkpoints_a_killed_run_starts_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = tiny_settings(enable_ckpt=False)
    whole = tiny_trainer(tmp_path / "a", settings)
    expected = summary(whole, whole.run())
    with pytest.raises(Killed):
        tiny_trainer(tmp_path / "b", settings, reporters=[Bomb(2, 1, kill)]).run()
    begun = RunRecord.start(config="tiny", config_hash="h", seed=0, run_id="0")
    RunRecord.start(previous=begun, config="tiny", config_hash="h", seed=0, run_id="0").write(
        tmp_path / "b/tiny/0/record.json"
    )
    rest = tiny_trainer(tmp_path / "b", settings)
    assert "it had ended before its first checkpoint" not in caplog.text
    assert summary(rest, rest.run()) == expected
    assert "it had ended before its first checkpoint, the run begins again." in caplog.text
    assert not list((tmp_path / "b" / "tiny" / "0").glob("ckpt/*"))
    assert without_times(tmp_path / "b") == without_times(tmp_path / "a")


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
@pytest.mark.parametrize("both", [False, True])
def test_a_damaged_state_is_put_aside(tmp_path: Path, caplog, whole: Whole, damage: str, both: bool) -> None:
    shutil.copytree(whole.killed, tmp_path / "b")
    folder = tmp_path / "b" / "tiny" / "0" / "ckpt"
    for name in ("last.ckpt", "previous.ckpt")[: 1 + both]:
        content = bytearray((folder / name).read_bytes())
        if damage == "flip":
            place = content.index(read_checkpoint(folder / name)["model"]["first.weight"].numpy().tobytes())
            content[place] ^= 1
        (folder / name).write_bytes({"flip": content, "cut": content[: len(content) // 2], "empty": b""}[damage])
    rest = tiny_trainer(tmp_path / "b", tiny_settings(ckpt_period=1))
    with caplog.at_level(logging.WARNING):
        assert summary(rest, rest.run()) == whole.expected
    assert "last.ckpt is damaged" in caplog.text
    assert (f"{folder.parent}: no older state, the run starts afresh." in caplog.text) == both
    assert (folder / "last.ckpt.damaged").is_file()
    assert without_times(tmp_path / "b") == without_times(whole.folder)


@pytest.mark.parametrize("other", [{"seed": 1, "run_id": "1"}, {"config_hash": "of another rate"}])
def test_the_state_of_another_run_is_put_aside(tmp_path: Path, caplog, other: dict[str, object]) -> None:
    """A file copied from the folder of another run, which fits this model as well."""
    settings = tiny_settings(ckpt_period=1)
    record = RunRecord(config="tiny", config_hash="h", seed=0, run_id="0")
    for name, of in (("a", record), ("b", record), ("other", dataclasses.replace(record, **other))):
        of.write(tmp_path / name / "tiny/0/record.json")
    whole = tiny_trainer(tmp_path / "a", settings)
    expected = summary(whole, whole.run())
    for name, lr in (("b", 0.02), ("other", 0.01)):
        with pytest.raises(Killed):
            tiny_trainer(tmp_path / name, settings, lr=lr, reporters=[Bomb(3, 2, kill)]).run()
    folder = tmp_path / "b/tiny/0/ckpt"
    (tmp_path / "other/tiny/0/ckpt/last.ckpt").replace(folder / "last.ckpt")
    rest = tiny_trainer(tmp_path / "b", settings)
    with caplog.at_level(logging.WARNING):
        assert summary(rest, rest.run()) == expected
    assert "last.ckpt is damaged (it is of a run of another" in caplog.text


def test_a_run_that_was_killed_between_its_last_two_files_has_its_best_model(tmp_path: Path, monkeypatch) -> None:
    """Its state says that it has ended, so that it writes no checkpoint any more."""
    settings, original = tiny_settings(ckpt_period=100, ckpt_best=False), Path.replace

    def replace(path: Path, target: Path) -> Path:
        renamed = original(path, target)
        if target.name == "last.ckpt":
            raise Killed
        return renamed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(Killed):
            tiny_trainer(tmp_path, settings).run()
    rest = tiny_trainer(tmp_path, settings)
    outcome = rest.run()
    assert read_checkpoint(tmp_path / "tiny/0/ckpt/best.ckpt")["epoch"] == outcome.best_epoch


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), RuntimeError("can't allocate memory")])
def test_a_state_that_cannot_be_read_now_is_not_called_damaged(
    tmp_path: Path, whole: Whole, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(path: Path) -> None:
        raise error

    shutil.copytree(whole.killed, tmp_path / "b")
    monkeypatch.setattr(checkpointer, "read_checkpoint", fails)
    with pytest.raises((type(error), RunFailed)):
        tiny_trainer(tmp_path / "b", tiny_settings(ckpt_period=1)).run()
    assert not list(tmp_path.rglob("*.damaged"))
    monkeypatch.undo()
    rest = tiny_trainer(tmp_path / "b", tiny_settings(ckpt_period=1))
    assert summary(rest, rest.run()) == whole.expected


def test_killed_between_the_two_renames(tmp_path: Path, whole: Whole) -> None:
    shutil.copytree(whole.killed, tmp_path / "b")
    folder = tmp_path / "b" / "tiny" / "0" / "ckpt"
    (folder / "last.ckpt").replace(folder / "next.ckpt")
    (folder / "previous.ckpt").unlink()
    rest = tiny_trainer(tmp_path / "b", tiny_settings(ckpt_period=1))
    assert rest._checkpointer.load()[0] == folder / "last.ckpt", "a run that had ended writes no other"
    assert not (folder / "next.ckpt").exists()
    assert summary(rest, rest.run()) == whole.expected


def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    tiny_trainer(tmp_path).run()
    with pytest.raises(UserError, match=r"last.ckpt: does not fit this model.*--overwrite"):
        tiny_trainer(tmp_path, model=TinyModel(dim=9)).run()


@pytest.mark.parametrize(
    ("name", "instead", "told"),
    [
        (None, None, "it holds a list"),
        ("history", "x", "history missing or of another type"),
        ("epoch", None, "epoch missing or of another type"),
        ("model", [1], "model missing or of another type"),
        ("processes", {}, "processes missing or of another type"),
    ],
)
def test_an_edited_checkpoint_is_put_aside(
    name: str | None, instead: Any, told: str, tmp_path: Path, whole: Whole, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(whole.killed, tmp_path / "b")
    file = tmp_path / "b" / "tiny" / "0" / "ckpt" / "last.ckpt"
    content = torch.load(file, weights_only=True)
    torch.save([1] if name is None else {**content, name: instead}, file)
    rest = tiny_trainer(tmp_path / "b", tiny_settings(ckpt_period=1))
    assert summary(rest, rest.run()) == whole.expected
    assert f"last.ckpt is damaged ({told}); renamed to last.ckpt.damaged" in caplog.text


def test_a_state_of_another_format_is_refused(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "tiny", 0)
    run.ckpt.mkdir(parents=True)
    torch.save({"format": 99}, run.ckpt / "last.ckpt")
    with pytest.raises(UserError, match="written in format 99, this version reads format 1"):
        Checkpointer(run, make_fabric("cpu"), tiny_settings()).load()


def test_a_new_best_epoch_makes_a_checkpoint_due(tmp_path: Path) -> None:
    for ckpt_best in (False, True):
        folder = tmp_path / str(ckpt_best)
        with pytest.raises(Killed):
            tiny_trainer(folder, tiny_settings(ckpt_best=ckpt_best), reporters=[Bomb(3, 1, kill)]).run()
        assert (folder / "tiny" / "0" / "ckpt" / "best.ckpt").is_file() == ckpt_best
