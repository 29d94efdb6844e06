"""Two and four processes on one CPU (gloo) train the model that one process trains."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment

from graphbench.errors import RunFailed
from graphbench.train.accelerator import make_fabric
from graphbench.train.failures import lost_processes_told as told
from tests.train.tiny_process import in_this_process, results, start, wait_for, without_times

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without torch.distributed")

# Three batches per epoch in groups of two: gradients are exchanged in the last batch of a group only. Of 18 training
# graphs every process has 9, in batches of 3 that together hold the 6 graphs of one process' batch.
GRAPHS = ("--no_norm", "--max_epoch", "3", "--accumulation", "2")
NODES = ("--no_norm", "--max_epoch", "3", "--level", "node")
RESUMED = ("--max_epoch", "4", "--batch_size", "3")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Folder and outcomes of the runs of two processes, which are started once."""
    folder = tmp_path_factory.mktemp("two")
    further = ("--then", str(folder / "nodes"), *NODES, "--then", str(folder / "whole"), *RESUMED)
    for captured in ("yes", "partly"):
        of_graphs = (*GRAPHS, "--batch_size", "3", "--captured", captured)
        further += ("--then", str(folder / captured), *of_graphs)
    process = start(folder / "graphs", "--devices", "2", *GRAPHS, "--batch_size", "3", *further)
    return folder, results(process)


def assert_same_scores(one: dict[str, Any], two: dict[str, Any]) -> None:
    for a, b in zip(one["scores"], two["scores"], strict=True):
        assert (a["split"], a["name"], a["count"]) == (b["split"], b["name"], b["count"])
        assert a["value"] == pytest.approx(b["value"], abs=1e-5)


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(tmp_path: Path, two: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, (graphs, *_) = two
    one = in_this_process(tmp_path, *GRAPHS, "--batch_size", "6")
    assert one["best_epoch"] == graphs["best_epoch"]
    assert one["weights"]["anchor"] != 1.0, "only the auxiliary loss depends on it"
    for name, weight in one["weights"].items():
        assert torch.allclose(torch.tensor(weight), torch.tensor(graphs["weights"][name]), atol=1e-5), name
    assert_same_scores(one, graphs)
    lines = without_times(folder / "graphs")
    for split, of_one in without_times(tmp_path).items():  # one line per epoch: the second process wrote nothing
        assert [line["epoch"] for line in lines[split]] == [line["epoch"] for line in of_one]


@pytest.mark.slow
def test_captured_steps_of_two_processes_give_the_numbers_of_one(
    tmp_path: Path, two: tuple[Path, list[dict[str, Any]]]
) -> None:
    """Averaged behind the recorded work, also where one process cannot record some of it."""
    folder, (*_, whole, partly) = two
    one = in_this_process(tmp_path, *GRAPHS, "--batch_size", "6", "--captured", "yes")
    for found in (whole, partly):
        for name, weight in one["weights"].items():  # unused ones, without gradients, do not decay
            assert torch.allclose(torch.tensor(weight), torch.tensor(found["weights"][name]), atol=1e-5), name
        assert_same_scores(one, found)
    assert (folder / "yes/tiny/0/val/stats.json").is_file()


@pytest.mark.slow
def test_one_graph_split_between_two_processes(tmp_path: Path, two: tuple[Path, list[dict[str, Any]]]) -> None:
    _, (_, nodes, *_) = two
    assert_same_scores(in_this_process(tmp_path, *NODES), nodes)


@pytest.mark.slow
def test_two_processes_resume(tmp_path: Path, two: tuple[Path, list[dict[str, Any]]]) -> None:
    _, (_, _, whole, *_) = two
    process = start(tmp_path, "--devices", "2", *RESUMED, "--sleep", "0.1")
    wait_for(process, "epoch 1 batch 1")
    process.terminate()  # the first process only: the other one has to be told
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    (rest,) = results(start(tmp_path, "--devices", "2", *RESUMED))
    assert rest == whole | {"decision": "resume"}


@pytest.mark.slow
def test_the_layer_at_fault_in_one_process_is_told_by_all(tmp_path: Path) -> None:
    """The other computes nothing again meanwhile, and its own loss is NaN one batch later."""
    process = start(tmp_path, "--devices", "2", "--batch_size", "3", "--divides")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    told = r"^epoch 0, batch 2: the training loss is nan\. .* norm \(DividesInTheSecondProcess, .*No checkpoint"
    assert len(re.findall(told, err, re.MULTILINE)) == 2, err


@pytest.mark.slow
def test_a_step_that_has_to_be_recorded_and_is_not_in_one_process_ends_all(tmp_path: Path) -> None:
    process = start(tmp_path, "--devices", "2", *GRAPHS, "--batch_size", "3", "--captured", "demanded")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert err.count("train.capture is always, but a step could not be captured") == 2, err


def others(process: subprocess.Popen[str]) -> list[int]:
    """Process numbers of the ranks that the first one has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("the numbers of child processes are read from /proc")
    return [int(number) for number in children.read_text().split()]


def wait_until_gone(*numbers: int) -> None:
    deadline = time.monotonic() + 60
    for number in numbers:
        command = Path(f"/proc/{number}/cmdline")
        while command.exists() and command.read_bytes():  # of a process that nobody has asked for, it is empty
            assert time.monotonic() < deadline, f"process {number} trains on alone"
            time.sleep(0.05)


def curve(folder: Path) -> list[tuple[int, float, float]]:
    """Epoch, loss and accuracy of the validation."""
    return [(line["epoch"], line["loss"], line["accuracy"]) for line in without_times(folder)["val"]]


@pytest.mark.slow
def test_four_processes_have_the_validation_curve_of_one_and_resume(tmp_path: Path) -> None:
    # All graphs are one batch, of whose training nodes every process has a share: the global batch is that of one.
    arguments = ("--no_norm", "--max_epoch", "6", "--level", "node", "--ckpt_seconds", "0")
    one = in_this_process(tmp_path / "one", *arguments)
    process = start(tmp_path / "four", "--devices", "4", *arguments, "--sleep", "0.1")
    wait_for(process, "epoch 2 batch 1")
    ranks = others(process)
    assert len(ranks) == 3
    os.kill(ranks[1], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "The same command resumes the run" in err
    wait_until_gone(*ranks)
    (four,) = results(start(tmp_path / "four", "--devices", "4", *arguments))
    assert four["decision"] == "resume"
    assert_same_scores(one, four)
    of_one, of_four = curve(tmp_path / "one"), curve(tmp_path / "four")
    assert [line[0] for line in of_four] == list(range(6))
    for expected, found in zip(of_one, of_four, strict=True):
        assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_a_process_that_hangs_ends_the_others_after_the_timeout(tmp_path: Path) -> None:
    process = start(tmp_path, "--devices", "3", "--max_epoch", "1000", "--timeout", "30", "--sleep", "0.05")
    wait_for(process, "epoch 1 batch 1")
    ranks = others(process)
    os.kill(ranks[1], signal.SIGSTOP)
    try:
        code = process.wait(timeout=100)
        wait_until_gone(ranks[0])
    finally:
        os.kill(ranks[1], signal.SIGKILL)  # it holds the other end of what is read below
        _, err = process.communicate(timeout=60)
    assert code == 3, err
    assert "another process of this run has ended" in err


def test_processes_that_do_not_come_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    of_two = {"LOCAL_RANK": "0", "NODE_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    for name, value in {**of_two, "MASTER_PORT": str(port)}.items():
        monkeypatch.setenv(name, value)  # as a scheduler does that starts the processes itself
    monkeypatch.setattr(LightningEnvironment, "creates_processes_externally", True)
    with pytest.raises(RunFailed, match=r"did not come within the seconds of timeout.*same command"), told():
        make_fabric("cpu", devices=2, timeout=1).launch()


def test_every_operation_that_waited_for_a_process_in_vain_is_told_as_its_loss() -> None:
    # Two members of a group in two threads; the second never sends. The operation that times out first says so, and
    # those that were under way beside it (in training, the buckets of gradients) end with another sentence.
    store, group = torch.distributed.HashStore(), {}

    def join(rank: int) -> None:
        group[rank] = torch.distributed.ProcessGroupGloo(store, rank, 2, timedelta(seconds=1))

    members = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
    for member in members:
        member.start()
    for member in members:
        member.join()
    under_way = [group[0].recv([torch.zeros(2)], 1, tag) for tag in range(3)]
    for operation in under_way:
        with pytest.raises(RunFailed, match="same command resumes the run"), told():
            operation.wait()


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_a_process_that_is_killed_ends_the_others(tmp_path: Path, first: bool) -> None:
    process = start(tmp_path, "--devices", "2", "--max_epoch", "1000", "--batch_size", "3", "--sleep", "0.05")
    wait_for(process, "epoch 1 batch 1")
    (second,) = others(process)
    os.kill(process.pid if first else second, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    if first:
        wait_until_gone(second)
    else:
        assert process.returncode == 3, err
        assert "another process of this run has ended" in err
        assert "Traceback" not in err
