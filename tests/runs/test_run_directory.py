"""What happens to a run that is already there."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from graphbench.errors import Interrupted, RunFailed, UserError
from graphbench.runs.identity import RunIdentity
from graphbench.runs.record import Outcome, RunRecord
from graphbench.runs.run_directory import RunDirectory
from tests.paths import ROOT

OUTCOME = Outcome("max_epoch", 0, 1, (), 1, 1.0, 1.0, None)


def enter(run: RunDirectory, config_hash: str = "h1", overwrite: bool = False, work=lambda: OUTCOME) -> str:
    with run.open(identity=RunIdentity(config_hash), config_text="a: 1\n", overwrite=overwrite) as decision:
        if decision != "skip":
            record = RunRecord.start(config="c", config_hash=config_hash, seed=0, run_id="0")
            with run.recorded(record) as ended:
                ended(work())
    return decision


def fail(error: BaseException):
    def work() -> Outcome:
        raise error

    return work


def test_a_fresh_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "c", 0)

    def work() -> Outcome:
        assert run.record.status == "running"
        logging.getLogger("graphbench.anything").info("hello")
        return OUTCOME

    assert enter(run, work=work) == "fresh"
    assert run.path == tmp_path / "c" / "0"
    assert (run.path / "config.yaml").read_text() == (tmp_path / "c" / "config.yaml").read_text() == "a: 1\n"
    assert run.record.status == "finished"
    assert "INFO hello" in run.log_file.read_text()
    assert run.ckpt.is_dir()


def test_a_finished_run_is_skipped_untouched(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "c", 0)
    enter(run)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    assert enter(run, work=fail(AssertionError())) == "skip"
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RunFailed("loss is nan"), "failed"),
        (Interrupted("stopped by SIGTERM"), "interrupted"),
        (KeyboardInterrupt(), "interrupted"),
        (ZeroDivisionError("0/0"), "failed"),
    ],
)
def test_an_unfinished_run_resumes(tmp_path: Path, error: BaseException, status: str) -> None:
    run = RunDirectory(tmp_path, "c", 0)
    with pytest.raises(type(error)):
        enter(run, work=fail(error))
    assert (run.record.status, run.record.reason) == (status, str(error) or "KeyboardInterrupt")
    assert enter(run) == "resume"
    assert run.record.status == "finished"


def test_another_configuration_is_refused_with_advice(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "c", 0)
    enter(run)
    with pytest.raises(UserError, match=r"finished\) of another configuration \(h1 there, h2 here\).*--overwrite"):
        enter(run, "h2")
    assert run.record.config_hash == "h1"


def test_a_run_that_started_from_another_folder_started_from_what_lies_there(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "c", 0)
    made_of = {"data": "d", "weights of a/0": "first"}
    RunRecord.start(config="c", config_hash="h1", seed=0, run_id="0", inputs=made_of).end("finished").write(
        run.record_file
    )
    run.refuse_another(RunIdentity("h1", {"weights of moved/0": "first"}))
    assert run.set_aside_another(RunIdentity("h1", {"weights of moved/0": "first"})) is None
    with pytest.raises(UserError, match=r"of another weights of a/0 \(first there, second here\)"):
        run.refuse_another(RunIdentity("h1", {"weights of a/1": "second"}))
    assert run.set_aside_another(RunIdentity("h1", {"weights of a/1": "second"})) is not None


def test_the_record_of_another_run_is_refused(tmp_path: Path) -> None:
    """A copied folder of seed 0 is no run of seed 1."""
    enter(RunDirectory(tmp_path, "c", 0))
    shutil.copytree(tmp_path / "c/0", tmp_path / "c/1")
    run = RunDirectory(tmp_path, "c", 1)
    with pytest.raises(UserError, match=r"c/1: holds the record of run 0.*--overwrite"):
        enter(run)
    aside = run.set_aside_another(RunIdentity("h1"))
    assert aside is not None
    assert aside.name.startswith("1.old-")


@pytest.mark.parametrize("change", ["delete", "rename", "replace", "nothing"])
def test_a_folder_that_is_deleted_or_renamed_under_its_run(tmp_path: Path, change: str) -> None:
    run = RunDirectory(tmp_path, "c", 0)

    def work() -> Outcome:
        if change == "delete":
            shutil.rmtree(tmp_path / "c")
        elif change != "nothing":
            run.path.rename(tmp_path / "mine")
        if change == "replace":
            run.path.mkdir()
        return OUTCOME

    if change == "nothing":
        assert enter(run, work=work) == "fresh"
        return
    with pytest.raises(RunFailed, match=r"c/0: the folder was deleted or renamed while the run was going on"):
        enter(run, work=work)
    assert not run.record_file.exists(), "nothing is written where another run may be"
    run.check_in_place()  # of a folder that is not open nothing is asked
    if change == "rename":
        (tmp_path / "mine").rename(run.path)
        assert enter(run) == "resume"


def test_overwriting_renames_aside(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "c", 0)
    enter(run)
    enter(run, "h2", overwrite=True)
    enter(run, "h3", overwrite=True)
    kept = sorted(path for path in run.config_dir.iterdir() if path.name.startswith("0.old-"))
    assert {RunRecord.read(path / "record.json").config_hash for path in kept} == {"h1", "h2"}
    assert run.record.config_hash == "h3"


def test_results_of_unknown_origin_are_refused(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "c", 0)
    (run.path / "train").mkdir(parents=True)
    (run.path / "train/stats.json").write_text("")
    with pytest.raises(UserError, match=r"without a readable record\.json"):
        enter(run)


def test_a_record_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory(tmp_path, "c", 0)
    enter(run)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(RunRecord, "read", lambda path: None)
    with pytest.raises(UserError, match=r"record.json may not be read by you"):
        enter(run)


def test_killed_before_the_record_was_written(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "c", 0)
    run.path.mkdir(parents=True)
    (run.path / "config.yaml").write_text("")
    assert enter(run) == "fresh"


def test_two_processes_in_one_folder(tmp_path: Path) -> None:
    script = (
        "import sys, time; from graphbench.runs.run_directory import RunDirectory, RunIdentity\n"
        f"with RunDirectory({str(tmp_path)!r}, 'c', 0).open(identity=RunIdentity('h1'), config_text=''):\n"
        "    print('inside', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    run = RunDirectory(tmp_path, "c", 0)
    try:
        assert process.stdout.readline() == b"inside\n"
        with pytest.raises(UserError, match="another process is working in this run directory"):
            enter(run)
        assert run.in_use
        assert not RunDirectory(tmp_path, "c", 1).in_use
        assert enter(RunDirectory(tmp_path, "c", 1)) == "fresh"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert not any((run.path / split).exists() for split in ("train", "val", "test"))
    assert not run.in_use
    (run.ckpt).rmdir()
    assert enter(run) == "fresh"  # the lock died with its holder


def test_a_second_process_of_the_same_run_writes_nothing(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "c", 0, writer=False)
    assert enter(run) == "fresh"
    assert list(tmp_path.iterdir()) == []
