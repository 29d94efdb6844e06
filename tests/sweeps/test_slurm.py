"""Clusters: what is handed to SLURM, and sweeps through a real one, whose jobs are killed, preempted and run again."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from graphbench.errors import UserError
from graphbench.sweeps import read_sweep, slurm_array
from graphbench.sweeps.cli import main
from graphbench.sweeps.plan import plan
from graphbench.sweeps.run_spec import RunResult, RunSpec
from graphbench.sweeps.search import SearchDimension, SearchPlan
from graphbench.sweeps.slurm import not_queued
from graphbench.sweeps.slurm_array import ArrayFolder
from graphbench.sweeps.slurm_settings import SlurmSettings, with_flags
from tests.paths import ROOT
from tests.sweeps import slurm_cluster

GCN = ROOT / "configs/nodes/gcn-cora.yaml"
RUNS = ((1,), (2, 3), None)


def write(path: Path, epochs: int, seeds: int, slurm: str = "{}", more: str = "") -> str:
    path.write_text(
        f"""\
sweep: {{name: mine, seeds: {seeds}, slurm: {slurm}}}
groups:
  - configs: [{GCN}]
    label: GCN
    common: {{num_threads: 1, print: file, train.early_stop_patience: 0, optim.max_epoch: {epochs}}}
    {more}
"""
    )
    return str(path)


@pytest.fixture(autouse=True)
def _environment(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.setenv("GRAPHBENCH_CACHE", str(tmp_path.parent / "cache"))
    monkeypatch.chdir(tmp_path)


def test_the_script_says_what_the_sweep_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = '{time: "4:00:00", memory: 8G, cpus: 4, gpus: 1, partition: gpu, account: me, runs: 2, '
    block += "options: [--constraint=a100], setup: [module load cuda]}"
    sweep = write(tmp_path / "mine.yaml", 5, seeds=5, slurm=block)
    command = [sweep, "--launcher", "slurm", "--dry_run"]
    assert main([*command, "--jobs", "3", "--slurm", "gpus=a100:2", "requeue=false", "options=--nice"]) == 0
    said = capsys.readouterr()
    script = said.out.splitlines()[1:]
    assert script[0] == "#!/bin/bash"
    assert [line.removeprefix("#SBATCH ") for line in script if line.startswith("#SBATCH")] == [
        "--job-name=mine",
        "--array=0-2%3",
        f"--output={tmp_path}/results/mine-slurm/array-0/%a.log",
        "--open-mode=append",
        "--ntasks=1",
        "--signal=B:USR1@120",
        "--time=4:00:00",
        "--mem=8G",
        "--gpus=a100:2",
        "--partition=gpu",
        "--account=me",
        "--cpus-per-task=4",
        "--no-requeue",
        "--constraint=a100",
        "--nice",
    ]
    assert "module load cuda" in script
    assert "export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}" in script
    assert script[-1].endswith(f"-m graphbench.sweeps.slurm_array {tmp_path}/results/mine-slurm/array-0")
    subprocess.run(["bash", "-n"], input="\n".join(script), text=True, check=True)
    assert not Path("results").exists(), "a dry run leaves nothing behind"


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("{time: 4:00:00}", "mine.yaml:1: received 4:00:00, which YAML reads as 14400.* where it is a text"),
        ("{time: 60}", r'mine.yaml:1: time is a text such as "4:00:00" \(in YAML in quotes: .*received 60\.'),
        ("{cpus: 0}", r"mine.yaml:1: cpus is a whole number from 1 on, received 0\."),
        ("{requeue: maybe}", r"mine.yaml:1: requeue is true or false, received 'maybe'\."),
        ("{options: --nice}", r"mine.yaml:1: options is a list of texts, e.g. .*, received '--nice'\."),
        ("{tiem: 1}", r"mine.yaml:1: unknown key of slurm 'tiem'. Did you mean 'time'\?"),
    ],
)
def test_wrong_settings_are_named_with_their_line(tmp_path: Path, block: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_sweep(write(tmp_path / "mine.yaml", 5, seeds=1, slurm=block))


def test_wrong_flags() -> None:
    assert with_flags(SlurmSettings(cpus=2), ["cpus=3", "memory=500", "setup=a", "setup=b"]) == SlurmSettings(
        cpus=3, memory="500", setup=("a", "b")
    )
    for flag, message in (
        ("cpus", r"--slurm takes KEY=VALUE, received 'cpus'"),
        ("cpus=many", r"--slurm: cpus is a whole number"),
        ("gpu=1", r"--slurm: unknown key 'gpu'. Did you mean 'gpus'"),
    ):
        with pytest.raises(UserError, match=message):
            with_flags(SlurmSettings(), [flag])


def test_without_slurm_there_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = write(tmp_path / "mine.yaml", 5, seeds=1)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([sweep, "--launcher", "slurm"]) == 2
    assert "error: --launcher slurm needs 'squeue', which is not installed here" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([sweep, "--wait"])
    assert "--wait and --slurm need --launcher slurm" in capsys.readouterr().err


def test_specifications_and_results_survive_the_disk(tmp_path: Path) -> None:
    space = (
        SearchDimension("a.b", ("1", "x"), None, None, False, "f:1"),
        SearchDimension("c", None, 1, 4, False, "f:2"),
    )
    search = SearchPlan(tmp_path / "s", "gcn", "", "0a", space, "accuracy", True, 4, "median", 0, 9)
    specs = [RunSpec(GCN, ("a.b", "1"), {"a.b": "f:3"}, 2, runs, "0a", tmp_path / "log", search) for runs in RUNS]
    specs[0] = dataclasses.replace(specs[0], search=None)
    folder = ArrayFolder(tmp_path / "array-0")
    folder.write([("f", "1"), ("f", "2"), ("f", "3")], specs, runs=2)
    assert folder.specs(0) == {0: specs[0], 1: specs[1]}
    assert folder.specs(1) == {2: specs[2]}
    assert folder.result(1) is None
    folder.write_result(1, RunResult("failed", "a reason", trial=3))
    assert folder.result(1) == RunResult("failed", "a reason", trial=3)
    for damaged in ("", "[]", "{}", folder.tasks_file.read_text()[:-9]):
        folder.tasks_file.write_text(damaged)
        for read in (folder.keys, lambda: folder.specs(0)):
            with pytest.raises(UserError, match=r"tasks.json: missing or damaged.*submit the sweep again"):
                read()


def test_a_script_that_sbatch_has_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ArrayFolder(tmp_path).write([], [], runs=2)
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)
    assert slurm_array.main([str(tmp_path)]) == 2
    assert "job.sh is started by sbatch" in capsys.readouterr().err
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "99")
    assert slurm_array.main([str(tmp_path)]) == 2
    assert "there is no job 99" in capsys.readouterr().err


def test_only_what_is_not_in_the_queue_is_submitted(tmp_path: Path) -> None:
    sweep = read_sweep(write(tmp_path / "mine.yaml", 5, seeds=3, more="search: {gnn.dropout: {low: 0.1, high: 0.5}}"))
    runs = plan(sweep, sweep.entries)[0].missing
    assert not_queued(runs, {runs[1].key}) == [runs[0], runs[2]]
    (together,) = plan(sweep, sweep.entries, together=True)[0].missing
    (rest,) = not_queued([together], {runs[1].key})
    assert [run.run_id for run in rest.runs] == [123, 125]
    assert not_queued([together], {run.key for run in runs}) == []
    trials = plan(sweep, sweep.entries, trials=5)[0].missing
    queued = {(trials[0].key[0], number) for number in ("17", "18")}
    assert len(not_queued(trials, queued)) == 3, "trials are alike: their number counts"


# ------------------------------------------------------------------ a real SLURM


@pytest.fixture(scope="session")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if missing := slurm_cluster.missing():
        pytest.skip(f"no SLURM here ({', '.join(missing)} not installed): apt-get install slurm-wlm munge")
    with slurm_cluster.cluster(tmp_path_factory.mktemp("slurm")) as conf:
        yield conf


@pytest.fixture
def slurm(slurm_conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    monkeypatch.setattr("graphbench.sweeps.slurm.POLL_INTERVAL", 0.5)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def record(run: int) -> dict[str, Any]:
    return json.loads(Path(f"results/gcn-cora/{run}/record.json").read_text())


def epochs(run: int) -> list[int]:
    file = Path(f"results/gcn-cora/{run}/train/stats.json")
    return [json.loads(line)["epoch"] for line in file.read_text().splitlines()] if file.is_file() else []


def until(condition: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def process_of(element: int) -> psutil.Process:
    """The Python process of a job of the latest array."""
    for process in psutil.process_iter(["environ", "cmdline"]):
        environment = process.info["environ"] or {}
        if environment.get("SLURM_ARRAY_TASK_ID") == str(element) and environment.get("PWD") == str(Path.cwd()):
            if "graphbench.sweeps.slurm_array" in (process.info["cmdline"] or []):
                return process
    raise AssertionError("no such job")


def states() -> dict[str, str]:
    """State of every element in the queue."""
    said = subprocess.run(["squeue", "--me", "-h", "-r", "-o", "%F_%K %T"], capture_output=True, text=True, check=True)
    return dict(line.split() for line in said.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.usefixtures("slurm")
def test_jobs_that_are_killed_or_run_out_of_time_go_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = [write(tmp_path / "mine.yaml", 60, seeds=2, slurm='{time: "0:30:00"}'), "train.ckpt_period", "1"]
    command += ["--launcher", "slurm"]
    assert main(command) == 0
    said = capfd.readouterr().err
    assert "2 submitted as job array " in said
    (job,) = {element.split("_")[0] for element in states()}
    for run in (123, 124):
        until(lambda run=run: len(epochs(run)) > 2)
        element = run - 123
        if run == 123:  # what SLURM does before the time limit
            subprocess.run(["scancel", "--batch", "--signal=USR1", f"{job}_{element}"], check=True)
        else:
            process_of(element).kill()
    until(lambda: states() == {f"{job}_0": "PENDING"})
    assert record(123)["status"] == "interrupted"
    assert record(124)["status"] == "running", "nobody could write another status"

    assert main(command) == 0
    assert "1 submitted as job array " in (said := capfd.readouterr().err)
    assert "1 in the queue already" in said
    subprocess.run(["scontrol", "update", f"JobId={job}_0", "StartTime=now"], check=True)
    assert main([*command, "--wait"]) == 0
    said = capfd.readouterr().err
    assert "0 submitted, 2 in the queue already" in said
    assert "2 of 2 runs finished; records below results" in said
    for run in (123, 124):
        assert (record(run)["status"], record(run)["resumed"]) == ("finished", 1)
        assert epochs(run) == list(range(60))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("slurm")
def test_of_twenty_runs_only_the_two_that_were_killed_run_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [write(tmp_path / "mine.yaml", 20, seeds=20), "train.ckpt_period", "1", "--launcher", "slurm"]
    assert main(command) == 0
    victims = sorted(random.sample(range(20), 2))
    for victim in victims:
        until(lambda victim=victim: epochs(123 + victim), seconds=500)
        process_of(victim).kill()
    until(lambda: not states(), seconds=500)
    runs = range(123, 143)
    assert [run - 123 for run in runs if record(run)["status"] != "finished"] == victims
    kept = {run: Path(f"results/gcn-cora/{run}/record.json").stat().st_mtime_ns for run in runs}
    capfd.readouterr()
    assert main([*command, "--wait"]) == 0
    said = capfd.readouterr().err
    assert "1 entries, 20 runs, 18 finished already." in said
    assert "2 submitted as job array " in said
    assert "20 of 20 runs finished" in said
    for run in runs:
        again = run - 123 in victims
        assert (record(run)["status"], record(run)["resumed"]) == ("finished", int(again))
        assert epochs(run) == list(range(20))
        assert (Path(f"results/gcn-cora/{run}/record.json").stat().st_mtime_ns != kept[run]) == again


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("slurm")
def test_a_search_and_a_failure_on_a_cluster(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    space = "search: {optim.base_lr: {low: 0.001, high: 0.1, log: true}}"
    sweep = write(tmp_path / "mine.yaml", 5, seeds=1, more=space)
    command = ["--launcher", "slurm", "--wait", "--slurm", "runs=2"]
    assert main([sweep, "--trials", "4", *command]) == 0
    said = capfd.readouterr().err
    assert "4 submitted as job array " in said
    assert "gcn-cora: best of 4 trials (4 complete, 0 pruned, 0 failed) is trial " in said
    assert main([sweep, "optim.base_lr", "1e30", *command]) == 1
    said = capfd.readouterr().err
    assert "failed: GCN / Cora (gcn-cora 123), log: results/gcn-cora/sweep.log" in said
    assert "the training loss is" in said
