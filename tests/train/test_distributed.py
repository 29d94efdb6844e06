"""Two processes on one CPU (gloo) train the model that one process trains."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.tiny_process import in_this_process, results, start, wait_for, without_times

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without torch.distributed")

# Three batches per epoch in groups of two: gradients are exchanged in the last batch of a group only. Of 18 training
# graphs every process has 9, in batches of 3 that together hold the 6 graphs of one process' batch.
GRAPHS = ("--no_norm", "--max_epoch", "3", "--accumulation", "2")
NODES = ("--no_norm", "--max_epoch", "3", "--level", "node")
RESUMED = ("--max_epoch", "4", "--batch_size", "3")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Folder and outcomes of three runs of two processes, which are started once."""
    folder = tmp_path_factory.mktemp("two")
    further = ("--then", str(folder / "nodes"), *NODES, "--then", str(folder / "whole"), *RESUMED)
    process = start(folder / "graphs", "--devices", "2", *GRAPHS, "--batch_size", "3", *further)
    return folder, results(process)


def assert_same_scores(one: dict[str, Any], two: dict[str, Any]) -> None:
    for a, b in zip(one["scores"], two["scores"], strict=True):
        assert (a["split"], a["name"], a["count"]) == (b["split"], b["name"], b["count"])
        assert a["value"] == pytest.approx(b["value"], abs=1e-5)


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


def test_one_graph_split_between_two_processes(tmp_path: Path, two: tuple[Path, list[dict[str, Any]]]) -> None:
    _, (_, nodes, _) = two
    assert_same_scores(in_this_process(tmp_path, *NODES), nodes)


@pytest.mark.slow
def test_two_processes_resume(tmp_path: Path, two: tuple[Path, list[dict[str, Any]]]) -> None:
    _, (*_, whole) = two
    process = start(tmp_path, "--devices", "2", *RESUMED, "--sleep", "0.1")
    wait_for(process, "epoch 1 batch 1")
    process.terminate()  # the first process only: the other one has to be told
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    (rest,) = results(start(tmp_path, "--devices", "2", *RESUMED))
    assert rest == whole | {"decision": "resume"}


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_a_process_that_is_killed_ends_the_others(tmp_path: Path, first: bool) -> None:
    process = start(tmp_path, "--devices", "2", "--max_epoch", "1000", "--batch_size", "3", "--sleep", "0.05")
    wait_for(process, "epoch 1 batch 1")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("the numbers of child processes are read from /proc")
    second = int(children.read_text().split()[0])
    os.kill(process.pid if first else second, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    if first:
        deadline = time.monotonic() + 60
        while Path(f"/proc/{second}/cmdline").exists() and Path(f"/proc/{second}/cmdline").read_bytes():
            assert time.monotonic() < deadline, "the second process trains on alone"
            time.sleep(0.05)
    else:
        assert process.returncode == 3, err
        assert "another process of this run has ended" in err
        assert "Traceback" not in err
