"""What goes wrong around a cluster: programs that refuse, jobs nobody was told of, files that are seen late."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphbench.sweeps import read_sweep
from graphbench.sweeps.cli import main
from graphbench.sweeps.plan import plan
from graphbench.sweeps.progress import SweepProgress
from graphbench.sweeps.run_spec import RunResult, RunSpec
from graphbench.sweeps.slurm import Arrays, wait
from graphbench.sweeps.slurm_array import ArrayFolder
from graphbench.sweeps.slurm_settings import SlurmSettings
from tests.paths import ROOT
from tests.sweeps.test_slurm import write

SBATCH = """\
given = sys.argv[1:]
number = 101 + len(list(here.glob("sbatch-*")))
(here / f"sbatch-{number}").write_text("\\n".join(given))
jobs = max(int(each.rpartition("-")[2]) for each in given if each.startswith("--array=")) + 1
fails, queued = (here / f"fails-{number}").exists(), (here / f"queued-{number}").exists()
if queued or not fails:
    with (here / "queue").open("a") as queue:
        queue.writelines(f"{number} {job} {given[-1]}\\n" for job in range(jobs))
sys.exit("Batch job submission failed: Socket timed out on send/recv operation" if fails else print(number))
"""
SQUEUE = """\
sys.exit("Unable to contact slurm controller" if (here / "down").exists() else print((here / "queue").read_text()))
"""
SCONTROL = '(here / "scontrol").write_text(" ".join(sys.argv[1:]))'


@pytest.fixture
def cluster(tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the queue and what SLURM's programs were told; these do nothing but remember it."""
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    folder = tmp_path / "slurm"
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (folder / "queue").touch()
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scontrol", SCONTROL)):
        head = f"#!{sys.executable} -SE\nimport sys\nfrom pathlib import Path\nhere = Path({str(folder)!r})\n"
        (programs / name).write_text(head + text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    work = tmp_path / "its place"
    work.mkdir()
    monkeypatch.chdir(work)
    return folder


def told(cluster: Path, number: int) -> list[str]:
    return (cluster / f"sbatch-{number}").read_text().split("\n")


def dependent(folder: Path) -> str:
    """A sweep of two entries, of which the second builds on the first."""
    sweep = Path(write(folder / "mine.yaml", 3, seeds=2, more="variants: [{name_tag: base}]"))
    entry = sweep.read_text().partition("groups:\n")[2].replace("label: GCN", "label: second")
    keys = "name_tag: second, pretrained.dir: results/gcn-cora-base, pretrained.adopt_architecture: false"
    sweep.write_text(sweep.read_text() + entry.replace("name_tag: base", keys))
    return str(sweep)


@pytest.mark.parametrize("lost", [False, True])
def test_what_sbatch_refuses_is_submitted_by_the_next_call(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lost: bool
) -> None:
    """``lost``: the job is in the queue, only the answer has not come."""
    monkeypatch.setattr("graphbench.sweeps.slurm.MAX_ARRAY_SIZE", 1)
    sweep = write(Path("mine.yaml"), 3, seeds=3)
    (cluster / "fails-102").touch()
    if lost:
        (cluster / "queued-102").touch()
    assert main([sweep, "--launcher", "slurm"]) == 2
    said = capsys.readouterr().err
    assert "Socket timed out on send/recv operation. 1 of 3 were submitted before; the same command goes on" in said
    Path("results/mine-slurm/array-0.bak").mkdir()
    assert main([sweep, "--launcher", "slurm"]) == 0
    count, numbers = (1, "103") if lost else (2, "103, 104")
    assert f"{count} submitted as job array {numbers}, {3 - count} in the queue already" in capsys.readouterr().err
    assert main([sweep, "--launcher", "slurm", "--out_dir", str(Path("results").absolute())]) == 0
    assert "0 submitted, 3 in the queue already" in capsys.readouterr().err, "the same folder by another name"


def test_what_is_asked_for_wins_over_the_environment(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of sbatch win over the lines of a script, and lose against its command line."""
    monkeypatch.setenv("SBATCH_EXPORT", "NONE")
    sweep = write(Path("mine.yaml"), 3, seeds=1, slurm="{options: ['--comment=\"two words\"']}")
    assert main([sweep, "--launcher", "slurm", "--slurm", "partition=gpu"]) == 0
    parsable, first, *options, script = told(cluster, 101)
    assert (parsable, first) == ("--parsable", "--export=ALL")
    assert {"--partition=gpu", "--comment=two words", "--job-name=mine"} <= set(options)
    assert f"--output={Path.cwd()}/results/mine-slurm/array-0/%a.log" in options
    lines = Path(script).read_text().splitlines()
    assert f"#SBATCH --output='{Path.cwd()}/results/mine-slurm/array-0/%a.log'" in lines
    assert f"cd '{Path.cwd()}' || exit" in lines


def test_what_builds_on_others_waits_for_those_in_the_queue(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = dependent(Path.cwd())
    assert main([sweep, "--launcher", "slurm", "--dry_run"]) == 0
    scripts = capsys.readouterr().out.split("#!/bin/bash")[1:]
    assert ["--dependency=afterany:<job of array-0>" in script for script in scripts] == [False, True]
    assert main([sweep, "--launcher", "slurm"]) == 0
    assert "--dependency=afterany:101" in told(cluster, 102)
    (cluster / "queue").write_text("")  # all of them were killed: their numbers may be those of others now
    assert main([sweep, "--launcher", "slurm"]) == 0
    assert not any("--dependency" in option for option in told(cluster, 103))
    assert "--dependency=afterany:103" in told(cluster, 104)


def test_waiting_survives_a_controller_that_is_away_and_files_that_come_late(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = read_sweep(write(Path("mine.yaml"), 3, seeds=3))
    items = plan(sweep, sweep.entries)[0].missing
    arrays = Arrays(Path("results"), "mine")
    assert arrays.submit(items, SlurmSettings(), None) == (["101"], 3)
    folder, slept = ArrayFolder(Path("results/mine-slurm/array-0")), list[float]()

    def next_thing(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            (cluster / "down").touch()
        elif len(slept) == 2:
            (cluster / "down").unlink()
            (cluster / "queue").write_text("")
            folder.write_result(0, RunResult("finished"))
        elif len(slept) == 3:  # seen after the job has left the queue
            folder.write_result(1, RunResult("elsewhere", "another process is working in this run directory"))

    clock = SimpleNamespace(sleep=next_thing, monotonic=lambda: sum(slept))
    monkeypatch.setattr("graphbench.sweeps.slurm.time", clock)
    with SweepProgress(3, 0) as progress:
        wait(arrays, items, progress)
    assert (progress.done, [failure.item for failure in progress.failures]) == (1, [items[2]])
    assert progress.elsewhere == [items[1]]
    assert sum(slept) > 90, "the third is waited for as long as a file may take"
    said = capsys.readouterr().err
    assert said.count("Unable to contact slurm controller") == 1
    assert "] GCN / Cora (gcn-cora 124): running elsewhere" in said
    assert "its job ended without a result: killed, or cancelled; see results/mine-slurm/array-0/2.log" in said


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("came_further", [False, True])
def test_a_job_that_gets_nowhere_in_its_time_is_not_queued_again(cluster: Path, came_further: bool) -> None:
    """SIGUSR1 while libraries are imported, before a training: the next attempt would end there, too."""
    sweep = read_sweep(write(Path("mine.yaml"), 100, seeds=2))  # the second run is longer than the signal's way
    specs: list[RunSpec] = [item.spec() for item in plan(sweep, sweep.entries)[0].missing]
    folder = ArrayFolder(Path("array-0").absolute())
    folder.write([("f", "1"), ("f", "2")], specs, runs=2)
    command = [sys.executable, "-m", "graphbench.sweeps.slurm_array", str(folder.path)]
    environment = {"PYTHONPATH": str(ROOT), "SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "7"}
    environment |= {"GRAPHBENCH_REQUEUE": "1"}
    job = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
    log = specs[0].log_file
    until((lambda: folder.result(0)) if came_further else log.exists)
    job.send_signal(signal.SIGUSR1)
    _, told = job.communicate(timeout=120)
    assert job.returncode == 130
    assert "interrupted: " in log.read_text() + told  # told, where the log exists and nothing is written to it yet
    if came_further:
        assert (cluster / "scontrol").read_text() == "requeue 7_0"
        assert folder.result(0) is not None
        assert folder.result(1) is None
    else:
        assert not (cluster / "scontrol").exists()
        result = folder.result(0)
        assert result is not None
        assert "the time limit of its job was over outside the training" in result.reason
