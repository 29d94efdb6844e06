"""Sweeps that run: real trainings on Cora, in worker processes that fail, are killed, or are interrupted."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

from graphbench.config import load_config
from graphbench.sweeps import read_sweep
from graphbench.sweeps.cli import main
from graphbench.sweeps.plan import plan
from tests.paths import ROOT

CONFIGS = ROOT / "configs/nodes"
COMMON = "common: {num_threads: 1, print: file}"


@pytest.fixture(autouse=True)
def _environment(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.setenv("GRAPHBENCH_CACHE", str(tmp_path.parent / "cache"))
    monkeypatch.chdir(tmp_path)


def write(path: Path, groups: str, seeds: int = 2) -> str:
    path.write_text(f"sweep: {{name: {path.stem}, seeds: {seeds}}}\ngroups:\n{groups}")
    return str(path)


def record(folder: str) -> dict[str, Any]:
    return json.loads(Path("results", folder, "record.json").read_text())


def lines(folder: str) -> int:
    file = Path("results", folder, "train/stats.json")
    return len(file.read_text().splitlines()) if file.is_file() else 0


def until(condition: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


# A run may have processes of its own, as reading molecules has: this one needs them where a worker loads it.
PLUGIN = """\
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process

if parent_process() is not None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(abs, [-1])) == [1]
"""


@pytest.mark.slow
def test_a_failed_run_stops_nothing_and_the_same_command_does_what_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "helped.py").write_text(PLUGIN)
    sweep = write(
        tmp_path / "mixed.yaml",
        f"""\
  - configs: [{CONFIGS}/gcn-cora.yaml]
    {COMMON}
    variants:
      - {{label: explodes, name_tag: x, optim.base_lr: 1e30, optim.max_epoch: 5, train.early_stop_patience: 0}}
      - {{label: GCN, optim.max_epoch: 2, plugins: [{tmp_path}/helped.py]}}
  - configs: [{CONFIGS}/gcn-chameleon.yaml]
    label: GCN
    common: {{num_threads: 1, print: file, optim.max_epoch: 2, run_multiple_splits: [3, 5]}}
""",
    )
    assert main([sweep, "--dry_run"]) == 0
    printed = capfd.readouterr()
    assert not Path("results").exists(), "a dry run leaves nothing behind"
    assert "mixed: 3 entries, 6 runs, 0 finished already." in printed.err
    cells = [line.split(" | ")[:4] for line in printed.out.splitlines()]
    assert cells[2] == ["GCN", "Chameleon_filtered", "gcn-chameleon", "2 runs, 0 finished"]

    assert main([sweep, "--jobs", "2"]) == 1
    said = capfd.readouterr().err
    assert "4 of 6 runs finished; records below results" in said
    assert f"table: graphbench tables --sweep {sweep} --records results" in said
    for seed in (123, 124):
        assert f"failed: explodes / Cora (gcn-cora-x {seed}), log: results/gcn-cora-x/sweep.log" in said
        assert record(f"gcn-cora-x/{seed}")["status"] == "failed"
        assert "the training loss is" in record(f"gcn-cora-x/{seed}")["reason"]
        assert record(f"gcn-cora/{seed}")["status"] == "finished"
    assert re.search(r"\n  epoch \d+, batch 0: the training loss is \S+\. Lower optim.base_lr", said)
    assert "the training loss is" in Path("results/gcn-cora-x/sweep.log").read_text()

    # Records and folders are what main.py leaves behind for the whole entry.
    entries = read_sweep(sweep).entries
    for entry, runs in zip(entries, (("123", "124"), ("123", "124"), ("3", "5")), strict=True):
        for run in runs:
            assert record(f"{entry.config.name}/{run}")["config_hash"] == entry.config.hash
        assert load_config(Path("results", entry.config.name, "config.yaml")).hash == entry.config.hash
    assert [record(f"gcn-chameleon/{run}")["data"]["split_index"] for run in (3, 5)] == [3, 5]
    assert [record(f"gcn-chameleon/{run}")["seed"] for run in (3, 5)] == [123, 123]
    assert json.loads(Path("results/gcn-chameleon/agg/test/best.json").read_text())["runs"] == ["3", "5"]

    kept = {path: path.stat().st_mtime_ns for path in Path("results").glob("gcn-c*/[0-9]*/record.json")}
    assert main([sweep, "--only", "gcn"]) == 0
    said = capfd.readouterr().err
    assert "mixed: 2 entries, 4 runs, 4 finished already." in said
    assert kept == {path: path.stat().st_mtime_ns for path in kept}

    assert main([sweep, "optim.max_epoch", "3"]) == 2, "the runs that are there have two epochs"
    said = capfd.readouterr().err
    assert f"error: {sweep}:6: gcn-cora-x (explodes): " in said
    assert "holds a run (failed) of another configuration" in said
    assert re.search(r"optim.max_epoch \d+ there and 3 here", said)

    assert main([sweep, "optim.max_epoch", "3", "--overwrite", "--only", "gcn-chameleon"]) == 0
    assert record("gcn-chameleon/3")["epochs"] == record("gcn-chameleon/5")["epochs"] == 3
    kept = [path.parent.name for path in Path("results/gcn-chameleon").glob("*.old-*/record.json")]
    assert sorted(name[0] for name in kept) == ["3", "5"], "moved aside, not deleted"
    capfd.readouterr()
    again = [sweep, "optim.max_epoch", "3", "--overwrite", "--only", "gcn-chameleon", "--out_dir", "results"]
    assert main(again) == 0
    said = capfd.readouterr().err
    assert "moved aside" not in said, "runs of the same configuration stay"
    assert f"table: graphbench tables --sweep {sweep} optim.max_epoch 3 --records results" in said


@pytest.mark.slow
def test_a_killed_worker_is_noticed_and_its_run_started_once_more(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sweep = write(
        tmp_path / "killed.yaml",
        f"""\
  - configs: [{CONFIGS}/gcn-cora.yaml]
    label: GCN
    common: {{num_threads: 1, print: file, train.early_stop_patience: 0, train.ckpt_period: 1, optim.max_epoch: 100}}
""",
        seeds=1,
    )
    victims: list[int] = []

    def kill() -> None:
        for _ in range(2):
            before = lines("gcn-cora/123")
            until(lambda before=before: lines("gcn-cora/123") > before)
            (worker,) = multiprocessing.active_children()
            victims.append(worker.pid)
            worker.kill()
            # Not is_alive(): it would take the exit status from the launcher, which waits for it in another thread.
            until(lambda worker=worker: not psutil.pid_exists(worker.pid))

    killer = threading.Thread(target=kill)
    killer.start()
    assert main([sweep]) == 1
    killer.join()
    said = capfd.readouterr().err
    assert "GCN / Cora (gcn-cora 123): its process was killed (SIGKILL); it is started once more" in said
    assert "failed: GCN / Cora (gcn-cora 123), log: results/gcn-cora/sweep.log" in said
    assert "  its process was killed (SIGKILL), 2 times" in said
    assert len(set(victims)) == 2
    assert record("gcn-cora/123")["status"] == "running", "nobody could write another status"

    again = read_sweep(sweep)
    (item,) = plan(again, again.entries)[0].missing
    assert item.spec().run().status == "finished"
    assert record("gcn-cora/123")["status"] == "finished"
    assert record("gcn-cora/123")["resumed"] == 2
    assert lines("gcn-cora/123") == 100


@pytest.mark.slow
@pytest.mark.exhaustive
def test_of_twenty_runs_the_two_whose_processes_are_killed_are_started_once_more(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = "num_threads: 1, print: file, train.early_stop_patience: 0, train.ckpt_period: 1, optim.max_epoch: 20"
    group = f"  - {{configs: [{CONFIGS}/gcn-cora.yaml], label: GCN, common: {{{settings}}}}}\n"
    sweep = write(tmp_path / "twenty.yaml", group, seeds=20)
    runs = range(123, 143)
    victims = sorted(random.sample(runs, 2))

    def kill() -> None:
        for run in victims:
            until(lambda run=run: lines(f"gcn-cora/{run}") > 0)
            (worker,) = multiprocessing.active_children()
            worker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    assert main([sweep]) == 0
    killer.join()
    said = capfd.readouterr().err
    assert "20 of 20 runs finished" in said
    assert said.count("its process was killed (SIGKILL); it is started once more") == 2
    records = {run: record(f"gcn-cora/{run}") for run in runs}
    assert {run for run in runs if records[run]["resumed"] == 1} == set(victims)
    assert sum(content["resumed"] for content in records.values()) == 2
    for run in runs:
        stats = Path(f"results/gcn-cora/{run}/train/stats.json").read_text().splitlines()
        assert [json.loads(line)["epoch"] for line in stats] == list(range(20))
    assert main([sweep]) == 0
    assert "1 entries, 20 runs, 20 finished already." in capfd.readouterr().err
    assert records == {run: record(f"gcn-cora/{run}") for run in runs}


@pytest.mark.slow
@pytest.mark.parametrize(
    "ends_by",
    [
        signal.SIGINT,
        *(pytest.param(number, marks=pytest.mark.exhaustive) for number in (signal.SIGTERM, signal.SIGKILL)),
    ],
)
def test_an_ended_sweep_leaves_no_process_and_a_state_to_resume(tmp_path: Path, ends_by: signal.Signals) -> None:
    sweep = write(
        tmp_path / "ended.yaml",
        f"""\
  - configs: [{CONFIGS}/gcn-cora.yaml]
    label: GCN
    common: {{num_threads: 1, train.early_stop_patience: 0, optim.max_epoch: 100000}}
""",
        seeds=1,
    )
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "scripts/sweep.py"), sweep],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    until(lambda: lines("gcn-cora/123") > 3 or process.poll() is not None)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(ends_by)
    _, said = process.communicate(timeout=300)
    if ends_by is signal.SIGKILL:  # the worker sees that it is alone, and ends by itself
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130, said
        assert "interrupted: what was running has saved its state; the same command goes on." in said
        assert "Traceback" not in said
    psutil.wait_procs(children, timeout=300)
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert record("gcn-cora/123")["status"] == "interrupted"
    assert (Path("results/gcn-cora/123/ckpt") / "last.ckpt").is_file()


@pytest.mark.slow
def test_two_calls_of_a_sweep_share_its_runs_and_end_when_all_are_finished(tmp_path: Path) -> None:
    """A third process has one run in hand, as ``main.py`` would."""
    groups = f"  - {{configs: [{CONFIGS}/gcn-cora.yaml], label: GCN, {COMMON[:-1]}, optim.max_epoch: 2}}}}\n"
    sweep = write(tmp_path / "shared.yaml", groups, seeds=3)
    (tmp_path / "results/gcn-cora").mkdir(parents=True)
    lock = FileLock(tmp_path / "results/gcn-cora/.124.lock")
    lock.acquire()
    command = [sys.executable, str(ROOT / "scripts/sweep.py"), sweep]
    said, calls = [tmp_path / f"{call}.log" for call in range(2)], list[subprocess.Popen[bytes]]()
    for file in said:
        with file.open("w") as log:
            calls.append(subprocess.Popen(command, stderr=log))
    until(lambda: all("1 left, running elsewhere: waiting" in each.read_text() for each in said))
    assert not any(call.poll() for call in calls)
    lock.release()
    assert [call.wait(300) for call in calls] == [0, 0], [each.read_text() for each in said]
    for each in said:
        assert "FAILED" not in each.read_text()
        assert "3 of 3 runs finished; records below results" in each.read_text()
    assert [record(f"gcn-cora/{seed}")["status"] for seed in (123, 124, 125)] == ["finished"] * 3
    assert not list(Path("results/gcn-cora").glob("*.old-*"))


@pytest.mark.slow
def test_the_seeds_of_an_entry_share_a_process(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sweep = write(
        tmp_path / "together.yaml",
        f"""\
  - configs: [{CONFIGS}/gcn-cora.yaml]
    {COMMON}
    variants:
      - {{label: explodes, name_tag: x, optim.base_lr: 1e30, optim.max_epoch: 5, train.early_stop_patience: 0}}
      - {{label: GCN, optim.max_epoch: 2}}
""",
    )
    assert main([sweep, "--together", "--dry_run"]) == 0
    assert "--repeat 2 --together" in capfd.readouterr().out
    assert main([sweep, "--together"]) == 1
    said = capfd.readouterr().err
    assert "[4/4] GCN / Cora (gcn-cora 123,124): test accuracy" in said
    assert "2 of 4 runs finished; records below results" in said
    for seed in (123, 124):
        assert f"failed: explodes / Cora (gcn-cora-x {seed}), log: results/gcn-cora-x/sweep.log" in said
        assert record(f"gcn-cora-x/{seed}")["status"] == "failed"
        assert (record(f"gcn-cora/{seed}")["status"], record(f"gcn-cora/{seed}")["together"]) == ("finished", 2)
    assert main([sweep, "--only", "GCN"]) == 0  # finished is finished, however it was trained
    assert "together: 1 entries, 2 runs, 2 finished already." in capfd.readouterr().err
