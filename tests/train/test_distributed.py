"""Two processes on one CPU (gloo) train the model that one process trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.train.tiny_process import result, start, without_times

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without torch.distributed")


def test_two_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    # Three batches per epoch in groups of two: gradients are exchanged in the last batch of a group only.
    options = ["--no_norm", "--max_epoch", "3", "--accumulation", "2"]
    # 18 training graphs: 9 per process, in batches of 3 that together hold the 6 graphs of one process' batch.
    processes = [
        start(tmp_path / "one", *options, "--batch_size", "6"),
        start(tmp_path / "two", *options, "--batch_size", "3", "--devices", "2"),
    ]
    one, two = map(result, processes)
    assert one["best_epoch"] == two["best_epoch"]
    for name, weight in one["weights"].items():
        assert torch.allclose(torch.tensor(weight), torch.tensor(two["weights"][name]), atol=1e-5), name
    for a, b in zip(one["scores"], two["scores"]):
        assert (a["split"], a["name"], a["count"]) == (b["split"], b["name"], b["count"])
        assert a["value"] == pytest.approx(b["value"], abs=1e-5)
    lines_one, lines_two = without_times(tmp_path / "one"), without_times(tmp_path / "two")
    for split, lines in lines_one.items():  # one line per epoch: the second process wrote nothing
        assert [line["epoch"] for line in lines_two[split]] == [line["epoch"] for line in lines]


@pytest.mark.slow
def test_one_graph_shared_by_two_processes(tmp_path: Path) -> None:
    options = ["--no_norm", "--max_epoch", "3", "--level", "node"]
    one, two = map(result, [start(tmp_path / "one", *options), start(tmp_path / "two", *options, "--devices", "2")])
    for a, b in zip(one["scores"], two["scores"]):
        assert (a["split"], a["name"], a["count"]) == (b["split"], b["name"], b["count"])
        assert a["value"] == pytest.approx(b["value"], abs=1e-5)


@pytest.mark.slow
def test_two_processes_resume(tmp_path: Path) -> None:
    options = ["--max_epoch", "4", "--devices", "2", "--batch_size", "3"]
    whole = result(start(tmp_path / "whole", *options))
    process = start(tmp_path / "stopped", *options, "--sleep", "0.1")
    for line in process.stdout:
        if line.strip() == "epoch 1 batch 1":
            break
    process.terminate()  # the first process only: the other one has to be told
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    rest = result(start(tmp_path / "stopped", *options))
    assert rest.pop("decision") == "resume"
    whole.pop("decision")
    assert rest == whole
